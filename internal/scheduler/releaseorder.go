// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// releaseStep is the release of one pod, and the steps that follow it.
type releaseStep struct {
	gang    *gangRelease
	release gang.Release
	// first: the pod is released before all others of its gang. decides: other gangs must follow the pod into its domain.
	first, decides bool
	next           []*releaseStep
}

// inOrder puts the releases of one plan in order. If pods of a graph, of a gang, of a single-node component or of a replica go to a domain
// that no released pod decides yet, one of them is released before the others. The leader that removes its gate decides where the others
// go. A replaced leader that continues, with a plan of its own, finds the gate removed and leaves the others to the new leader. inOrder
// returns the steps that follow no other step.
func inOrder(gangs []*gangRelease) (roots []*releaseStep) {
	var steps []*releaseStep
	for _, g := range gangs {
		for _, r := range g.pods {
			steps = append(steps, &releaseStep{gang: g, release: r})
		}
	}
	slices.SortFunc(steps, compareSteps)
	firsts := map[string]*releaseStep{} // by domain
	for _, s := range steps {
		var after *releaseStep
		for _, domain := range s.domains() {
			if before := firsts[domain]; before != nil {
				after = before
				continue
			}
			firsts[domain] = s
			s.first = s.first || domain == s.ofGang()
			s.decides = s.decides || slices.Contains(s.release.Undecided, domain)
		}
		if !s.first && after.gang != s.gang {
			after = firsts[s.ofGang()] // a gang is formed before its pods are released
		}
		if after == nil {
			roots = append(roots, s)
		} else {
			after.next = append(after.next, s)
		}
	}
	return roots
}

// domains returns the names of the domains that the pod shares with others and that no released pod decides: of its graph, gang, component
// and replica. The pod follows the first pod of the last domain in which it is not the first itself.
func (s *releaseStep) domains() (names []string) {
	undecided := s.release.Undecided
	if len(undecided) > 0 && undecided[0] == gang.OfGraph {
		names, undecided = append(names, gang.OfGraph), undecided[1:]
	}
	names = append(append(names, s.ofGang()), undecided...)
	labels := s.release.Pod.Labels
	return append(names, "replica "+labels[render.LabelScalingGroup]+" "+labels[render.LabelReplica])
}

func (s *releaseStep) ofGang() string { return "gang " + s.release.Pin.Gang }

// compareSteps puts base gangs, and the rest of a base gang, first, and then replicas by their ordinals, as the planner places them. In a
// base gang, and in every other replica, the oldest pod goes first, since a released pod that one leader still considers gated is older
// than the pods that were recreated alongside it. Pods created in the same second are ordered by name, since two leaders have to begin with
// the same pod.
func compareSteps(a, b *releaseStep) int {
	rank := func(s *releaseStep) int32 {
		if s.gang.gang.Base || s.release.Rest {
			return -1
		}
		ordinal, _, _ := render.ReplicaOf(s.release.Pod)
		return ordinal
	}
	x, y := a.release.Pod, b.release.Pod
	return cmp.Or(cmp.Compare(rank(a), rank(b)), x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
}

// deciders counts the steps that decide a domain, among the given steps and the steps that follow them.
func deciders(steps []*releaseStep) (n int) {
	for _, s := range steps {
		if n += deciders(s.next); s.decides {
			n++
		}
	}
	return n
}
