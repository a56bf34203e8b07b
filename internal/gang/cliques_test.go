// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/nvlink"
)

// Pods are listed by the template that their claims are made of, with the cliques of their nodes; without claims, or on nodes without cliques, nothing is.
func TestCliquesOf(t *testing.T) {
	for name, tc := range map[string]struct {
		claims bool
		labels []string
		own    bool
		want   []Claimed
	}{
		"two cliques": {true, []string{"f.1", "f.2"}, false, []Claimed{{Template: "channel", Cliques: []nvlink.Clique{
			{Name: "f.1", Replicas: []nvlink.Replica{{Name: "work-0", Pods: 1}}}, {Name: "f.2", Replicas: []nvlink.Replica{{Name: "work-0", Pods: 1}}},
		}}}},
		"one clique": {true, []string{"f.1", "f.1"}, false, []Claimed{{Template: "channel", Cliques: []nvlink.Clique{{Name: "f.1", Replicas: []nvlink.Replica{{Name: "work-0", Pods: 2}}}}}}},
		"one host has none": {true, []string{"f.1", ""}, false, []Claimed{{Template: "channel", Cliques: []nvlink.Clique{
			{Name: "f.1", Replicas: []nvlink.Replica{{Name: "work-0", Pods: 1}}}, {Name: "", Replicas: []nvlink.Replica{{Name: "work-0", Pods: 1}}},
		}}}},
		"no host has any": {true, []string{"", ""}, false, nil},
		"no claims":       {false, []string{"f.1", "f.2"}, false, nil},
		"of a domain that Trellis makes": {true, []string{"f.1", "f.1"}, true, []Claimed{{Template: "channel", Own: true, Cliques: []nvlink.Clique{
			{Name: "f.1", Replicas: []nvlink.Replica{{Name: "work-0", Pods: 2}}},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, o := NewCluster(), asking(2)
			claims := []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: ptr.To("channel")}}
			if tc.own {
				claims[0].Name = "trellis-replica-compute-domain"
			}
			if !tc.claims {
				claims = nil
			}
			for i := range o.Groups[0].Spec.Roles {
				o.Groups[0].Spec.Roles[i].Template.Spec.ResourceClaims = claims
			}
			for i, pod := range o.Pods {
				node := host("h"+pod.Name, "r0", 1)
				metav1.SetMetaDataLabel(&node.ObjectMeta, nvlink.CliqueLabel, tc.labels[i])
				c.SetNode(node)
				pod.Spec.NodeName, pod.Spec.ResourceClaims = node.Name, claims
				c.SetPod(pod)
			}
			if diff := cmp.Diff(tc.want, CliquesOf(c, o)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
