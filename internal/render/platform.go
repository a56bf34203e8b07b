// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import corev1 "k8s.io/api/core/v1"

// Platform holds the addresses of the services that all graphs of a cluster share; "" if a service does not exist. Each address becomes a
// variable of every Dynamo program, so changing an address replaces the pods.
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
