// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

const nic = "example.com/nic"

// What a DeviceClass serves is named for the pods that sit, or have their reservation, where it is not offered; for no others.
func TestUncounted(t *testing.T) {
	for name, tc := range map[string]struct {
		served []string
		at     map[string]string // pods by node; "-" stands for a gated one
		want   []Uncounted
	}{
		"nothing is served":          {at: map[string]string{"a-0": "plain"}},
		"another resource":           {served: []string{"example.com/x"}, at: map[string]string{"a-0": "plain"}},
		"the host offers it":         {served: []string{nic}, at: map[string]string{"a-0": "offers"}},
		"nothing is placed":          {served: []string{nic}, at: map[string]string{"a-0": "-"}},
		"the host does not offer it": {served: []string{nic}, at: map[string]string{"a-0": "plain", "a-1": "offers"}, want: []Uncounted{{nic, []string{"a"}}}},
		"two services":               {served: []string{nic}, at: map[string]string{"b-0": "plain", "a-0": "plain"}, want: []Uncounted{{nic, []string{"a", "b"}}}},
		"two resources":              {served: []string{"gpu", nic}, at: map[string]string{"b-0": "plain"}, want: []Uncounted{{nic, []string{"b"}}, {"gpu", []string{"b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCluster()
			c.Serve(tc.served)
			plain, offers := host("plain", "a", 0), host("offers", "a", 8)
			offers.Status.Allocatable[nic] = resource.MustParse("8")
			c.SetNode(plain)
			c.SetNode(offers)
			o := Observation{}
			for _, component := range []string{"a", "b"} {
				sg := newGroup(component, 2, 1, frozen("zone", ""))
				sg.Spec.Roles[0].Template.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{nic: resource.MustParse("1"), "gpu": resource.MustParse("1")},
				}}}
				o.Groups = append(o.Groups, sg)
				o.Pods = append(o.Pods, podsAt(sg, tc.at)...)
			}
			for _, pod := range o.Pods {
				c.SetPod(pod)
			}
			if diff := cmp.Diff(tc.want, UncountedOf(c, o)); diff != "" {
				t.Errorf("uncounted (-want +got):\n%s", diff)
			}
		})
	}
}

// podsAt are the pods of a group, by component and ordinal, on their nodes.
func podsAt(sg *trellisv1alpha1.ScalingGroup, at map[string]string) (pods []*corev1.Pod) {
	for ordinal, name := range []string{sg.Spec.Component + "-0", sg.Spec.Component + "-1"} {
		switch node := at[name]; node {
		case "":
		case "-":
			pods = append(pods, newPod(sg, int32(ordinal), 0))
		default:
			pod := newPod(sg, int32(ordinal), 0, "z")
			pod.Spec.NodeName = node
			pods = append(pods, pod)
		}
	}
	return pods
}
