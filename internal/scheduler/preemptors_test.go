// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// A replica that waits after a preemption says who has preempted it, for as long as it waits.
func TestPreemptorIsNamed(t *testing.T) {
	h := newHolds(time.Minute)
	sg := &trellisv1alpha1.ScalingGroup{}
	sg.Namespace, sg.Name, sg.Spec.Component = "team-a", "chat-worker", "Worker"
	now := time.Unix(0, 0)
	h.notePreemptor(&placement.Preemption{Gangs: []string{"team-a/chat-worker-1", "7f0c-uid"}, Pods: 3}, types.NamespacedName{Namespace: "team-b", Name: "big"}, now)
	for range 5 { // longer than a preemption is remembered of what does not wait
		now = now.Add(preemptedFor - time.Second)
		h.expire(topology.NewCluster(), now)
		waiting := []gang.Waiting{{Component: "Worker", Ordinal: 0, Message: "needs"}, {Component: "Worker", Ordinal: 1, Message: "needs"}}
		h.namePreemptors([]*trellisv1alpha1.ScalingGroup{sg}, waiting, now)
		if diff := cmp.Diff([]string{"needs", "needs; preempted by team-b/big"}, []string{waiting[0].Message, waiting[1].Message}); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
	if h.expire(topology.NewCluster(), now.Add(preemptedFor+time.Second)); len(h.preemptors) > 0 {
		t.Errorf("remembered for ever: %v", h.preemptors)
	}
}
