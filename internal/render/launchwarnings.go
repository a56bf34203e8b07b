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

// LaunchWarnings describes what the user has to know about how multinode services start. alpha is what only v1alpha1 can say of the
// deployment.
func LaunchWarnings(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly) []field.Text {
	var asWritten []string
	for _, c := range Components(dgd) {
		nodes, multinode := c.PodsPerReplica()
		if !multinode {
			continue
		}
		t := newTemplater(dgd, c, alpha.Services[c.Name])
		t.roles(nodes)
		if len(t.errs) == 0 && !t.launched { // with errors it is refused anyway
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

// few lists at most three names: the API server cuts long warnings.
func few(names []string) string { return limit.Join(names, len(names), 3, ", ") }
