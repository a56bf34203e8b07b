// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// releaseStep is the release of one pod, with the steps after it.
type releaseStep struct {
	gang    *gangRelease
	release gang.Release
	// first: the pod is released before the other pods of its gang. decides: the release of the pod determines a domain that other pods
	// share.
	first, decides bool
	next           []*releaseStep
}

// inOrder puts the releases of one plan in order, and returns the steps without a preceding step. If pods of a graph, gang, single-node
// component or replica share a domain that no released pod determines yet, one of these pods is released before the other pods. The leader
// that removes the gate of this pod determines where the other pods are placed. A former leader that continues with its own plan finds the
// gate removed, and does not release the other pods.
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

// domains names what the pod shares with other pods: its [gang.Release].Undecided domains, its gang and its replica. If other steps already
// come first for some of these names, the pod is released after the step that comes first for the last such name in the list.
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

// compareSteps orders the steps as the planner places replicas: first the pods of base gangs, including the missing pods of a partly
// released base gang, and then the replicas by ordinal. Within the base gangs, and within each ordinal, the oldest pod comes first: a
// released pod that one leader still considers gated is older than pods of its gang or replica that were recreated. Pods that were created
// in the same second are ordered by name, so that two leaders begin with the same pod.
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

// deciders counts the steps that determine a domain, among the given steps and all steps after them.
func deciders(steps []*releaseStep) (n int) {
	for _, s := range steps {
		if n += deciders(s.next); s.decides {
			n++
		}
	}
	return n
}
