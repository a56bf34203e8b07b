// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Of is the snapshot of a world that a plan is made on, with all of its graphs. Pods that have ended take no capacity and are left out.
func Of(w *whatif.World) *Snapshot {
	s := &Snapshot{}
	for _, n := range w.Nodes {
		s.Nodes = append(s.Nodes, *n)
	}
	for _, ct := range w.Topologies {
		s.Topologies = append(s.Topologies, *ct)
	}
	for _, dgd := range w.Graphs {
		s.Graphs = append(s.Graphs, *dgd)
	}
	for _, sg := range w.Groups {
		s.Groups = append(s.Groups, *sg)
	}
	for _, pod := range w.Pods {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			s.Pods = append(s.Pods, *pod)
		}
	}
	return s
}
