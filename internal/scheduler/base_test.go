// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// A graph has one domain, and nothing of it is placed yet. The one replica of a component is being deleted: the others wait until it is made
// recreated, or they might choose a domain that has no capacity for it.
func TestBaseGangWaitsForWhatIsRecreated(t *testing.T) {
	b := newBench(t, Options{})
	o := asking(1, 1, 0)
	front, work := newGroup("front", 1, 1, frozen("rack", "")), newGroup("work", 1, 1, frozen("rack", ""))
	o.Groups = []*trellisv1alpha1.ScalingGroup{front, work}
	gone := withGPU(newPod(work, 0, 0))
	gone.DeletionTimestamp = &metav1.Time{Time: begin}
	o.Pods = append(o.Pods[:0], withGPU(newPod(front, 0, 0)), gone)

	d := b.decide(o)
	releases, result := d.releases, d.result
	if len(releases) > 0 {
		t.Errorf("%s is released", releases[0].Pod.Name)
	}
	if len(result.Waiting) != 1 || result.Waiting[0].Component != "front" || result.Waiting[0].Code != gang.CodeCreating {
		t.Errorf("waiting are %v, want front, for what is being made", result.Waiting)
	}

	again := withGPU(newPod(work, 0, 0))
	again.UID += "-again"
	o.Pods[1] = again
	if d := b.decide(o); len(d.releases) != 2 {
		t.Errorf("%d pods are released, want both", len(releases))
	}
}
