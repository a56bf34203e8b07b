// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// LaunchWarnings returns warnings about the start of multinode components. alpha holds the deployment's fields that only v1alpha1 has.
func LaunchWarnings(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly) []field.Text {
	var asWritten []string
	for _, c := range Components(dgd) {
		nodes, multinode := c.PodsPerReplica()
		if !multinode {
			continue
		}
		t := newTemplater(dgd, c, alpha.Services[c.Name])
		t.roles(nodes)
		if len(t.errs) == 0 && !t.launched { // admission refuses a deployment with errors anyway
			asWritten = append(asWritten, c.Name)
		}
	}
	if len(asWritten) == 0 {
		return nil
	}
	return []field.Text{field.Say(
		"%s: the command does not show how the pods form one program, so each starts as written; it finds the others by $%s, $%s "+
			"and $%s (%s)",
		field.Component(-1, "*").Child("multinode"), framework.EnvLeaderAddress, framework.EnvHosts, framework.EnvPodIndex, few(asWritten))}
}

// few lists at most three names, because the API server truncates long warnings.
func few(names []string) string { return limit.Join(names, len(names), 3, ", ") }
