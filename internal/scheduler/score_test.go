// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// A replica that was placed before counts as one that is placed now: the score is that of the worst of all.
func TestScoreCountsWhatWasPlacedBefore(t *testing.T) {
	b := newBench(t, Options{})
	o := asking(1, 1, 0)
	work := newGroup("work", 2, 2, frozen("zone", ""))
	o.Groups = []*trellisv1alpha1.ScalingGroup{work}
	o.Pods = o.Pods[:0]
	for ordinal := range int32(2) {
		for index := range int32(2) {
			o.Pods = append(o.Pods, withGPU(newPod(work, ordinal, index)))
		}
	}
	if got := gang.Score(b.s.ledger.cluster, o); got != placement.Unscored {
		t.Errorf("nothing is placed: %v", got)
	}
	for i, node := range []string{"a0", "b0"} { // replica 0, over both racks of a zone
		b.s.ledger.cluster.SetPod(boundTo(o.Pods[i], node))
	}
	if got, want := gang.Score(b.s.ledger.cluster, o), 0.75; got != want {
		t.Errorf("one replica over two racks: %v, want %v", got, want)
	}
	for i, node := range []string{"a1", "a1"} { // replica 1, in one
		b.s.ledger.cluster.SetPod(boundTo(o.Pods[2+i], node))
	}
	if got, want := gang.Score(b.s.ledger.cluster, o), 0.75; got != want {
		t.Errorf("with another in one rack: %v, want %v", got, want)
	}
	b.s.ledger.cluster.DeletePod(string(o.Pods[0].UID))
	b.s.ledger.cluster.DeletePod(string(o.Pods[1].UID))
	if got := gang.Score(b.s.ledger.cluster, o); got != 1 {
		t.Errorf("the worst one is gone: %v, want 1", got)
	}
}

func boundTo(pod *corev1.Pod, node string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	return pod
}
