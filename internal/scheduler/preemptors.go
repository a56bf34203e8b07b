// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// notePreemptor remembers the deployment for which replicas are preempted. Entries for pods that do not belong to Trellis have no effect.
func (h *holds) notePreemptor(p *placement.Preemption, graph types.NamespacedName, now time.Time) {
	for _, replica := range p.Gangs {
		h.preemptors[replica] = preemptor{graph, now}
	}
}

// namePreemptors adds a note to each waiting replica that was preempted. The note names the deployment for which the replica was preempted.
// This deployment is remembered for as long as the replica waits.
func (h *holds) namePreemptors(groups []*trellisv1alpha1.ScalingGroup, waiting []gang.Waiting, now time.Time) {
	if len(h.preemptors) == 0 {
		return
	}
	names := map[string]string{}
	for _, sg := range groups {
		names[sg.Spec.Component] = sg.Namespace + "/" + sg.Name
	}
	for i := range waiting {
		w := &waiting[i]
		replica := fmt.Sprintf("%s-%d", names[w.Component], w.Ordinal)
		if by, preempted := h.preemptors[replica]; preempted {
			by.since = now
			h.preemptors[replica] = by
			w.Noted(fmt.Sprintf("preempted by %s", by.graph))
		}
	}
}
