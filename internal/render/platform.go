// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import corev1 "k8s.io/api/core/v1"

// Platform is where the components that all graphs of a cluster share are reached; empty is not there. What is set becomes a variable of
// every Dynamo program, so a change of it replaces the pods.
type Platform struct {
	NATS, ETCD, ModelExpress, Prometheus string
}

func (p Platform) env() []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, e := range []corev1.EnvVar{
		{Name: "NATS_SERVER", Value: p.NATS},
		{Name: "ETCD_ENDPOINTS", Value: p.ETCD},
		{Name: "MODEL_EXPRESS_URL", Value: p.ModelExpress},
		{Name: "PROMETHEUS_ENDPOINT", Value: p.Prometheus},
	} {
		if e.Value != "" {
			env = append(env, e)
		}
	}
	return env
}
