// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// TestMinAvailableGoesTogether: of a component that does not run without two replicas nothing is released before both are made and fit, with a
// domain of the graph and without one.
func TestMinAvailableGoesTogether(t *testing.T) {
	for name, c := range map[string]*trellisv1alpha1.ResolvedTopology{"a base gang": frozen("rack", ""), "no domain of the graph": frozen("", "rack")} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			o := asking(1, 1, 0)
			work := newGroup("work", 3, 1, c)
			work.Spec.MinAvailable = ptr.To[int32](2)
			o.Groups = []*trellisv1alpha1.ScalingGroup{work}
			o.Pods = append(o.Pods[:0], withGPU(newPod(work, 0, 0)))
			d := b.decide(o)
			releases, result := d.releases, d.result
			if len(releases) > 0 {
				t.Errorf("%s is released alone", releases[0].Pod.Name)
			}
			if len(result.Waiting) == 0 || result.Waiting[0].Code != gang.CodeCreating {
				t.Errorf("waiting are %v, want what is being created", result.Waiting)
			}
			o.Pods = append(o.Pods, withGPU(newPod(work, 1, 0)))
			if d := b.decide(o); len(d.releases) != 2 {
				t.Errorf("%d pods are released, want the two that are there", len(releases))
			}
		})
	}
}
