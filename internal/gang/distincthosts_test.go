// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/render"
)

// TestDistinctHosts: with the annotation, pods of a replica are pinned to hosts of their own; the rest of a release that was cut short, too.
func TestDistinctHosts(t *testing.T) {
	for name, test := range map[string]struct {
		value string
		// bound is the host of the first pod; "" while it is gated.
		bound string
		want  []string
	}{
		"without":               {want: []string{"h1", "h1"}},
		"with":                  {value: "true", want: []string{"h1", "h2"}},
		"the rest, first host":  {value: "true", bound: "h1", want: []string{"h2"}},
		"the rest, second host": {value: "true", bound: "h2", want: []string{"h1"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := asking(2)
			for i := range o.Groups[0].Spec.Roles {
				o.Groups[0].Spec.Roles[i].Template.Annotations = map[string]string{render.AnnotationDistinctHosts: test.value}
			}
			c := NewCluster()
			c.SetNode(host("h1", "a", 8))
			c.SetNode(host("h2", "a", 8))
			if test.bound != "" {
				pod := o.Pods[0]
				pod.Spec.SchedulingGates, pod.Spec.NodeName = nil, test.bound
				pod.Spec.NodeSelector = map[string]string{"z": "z", "r": "a"}
				c.SetPod(pod)
			}
			var got []string
			for _, release := range releasesOf(c, o) {
				got = append(got, release.Pin.Node)
				if apart := test.value == "true"; release.Pin.Apart != apart {
					t.Errorf("apart %v, want %v", release.Pin.Apart, apart)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
