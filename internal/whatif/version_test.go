// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A deployment whose pods use a feature of the kubelet waits for nodes that declare it, if the kube-scheduler of the cluster asks for that.
// Where the release is not known, it does if some node declares features.
func TestFeaturesByVersion(t *testing.T) {
	const lacking = "lacking feature RestartAllContainersOnContainerExits"
	for name, tc := range map[string]struct {
		version   string
		declaring int
		feature   string
		waits     bool
	}{
		"1.37, no node declares":           {version: "v1.37.1", waits: true},
		"1.36, another feature":            {version: "v1.36.0-gke.1", declaring: 8, feature: "Other", waits: true},
		"1.37, all nodes declare":          {version: "v1.37.1", declaring: 8, feature: "RestartAllContainersOnContainerExits"},
		"1.37, the nodes of one rack do":   {version: "v1.37.1", declaring: 2, feature: "RestartAllContainersOnContainerExits"},
		"1.37, one node of a rack does":    {version: "v1.37.1", declaring: 1, feature: "RestartAllContainersOnContainerExits", waits: true},
		"1.35":                             {version: "v1.35.4"},
		"not known, no node declares":      {},
		"not known, one node declares one": {declaring: 1, feature: "Other", waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2)
			w.Version = tc.version
			for _, n := range w.Nodes[:tc.declaring] {
				n.Status.DeclaredFeatures = []string{tc.feature}
			}
			dgd := deployment("g", 1)
			dgd.Spec.Components[0].PodTemplate.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
			g, err := NewPlanner(w).Plan(dgd)
			if err != nil {
				t.Fatal(err)
			}
			switch why := g.Replicas[0].Reason; {
			case tc.waits && (why == nil || !strings.Contains(why.Message, lacking)):
				t.Errorf("does not wait for it: %+v", why)
			case !tc.waits && why != nil:
				t.Errorf("waits: %s", why.Message)
			}
		})
	}
}
