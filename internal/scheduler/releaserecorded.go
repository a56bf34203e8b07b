// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// releaseRecorded releases the gated and planned pods of assigned gangs to their recorded hosts, if the hosts have capacity for the entire
// gang. An earlier leader assigned these gangs, or their release failed. Gangs without this capacity are planned again.
func (e *evaluation) releaseRecorded(o *gang.Observation) {
	if o.Record == nil || o.Unfinished == gang.ConstraintRefreshed {
		return
	}
	now := e.clock.Now()
	e.pods.resume(o.Pods)
	e.forsakenGivenBack(o.Pods)
	o.Releasing, _ = e.pods.observed(o.Pods)
	waiting := gang.RecordedReleases(*o)
	if len(waiting) == 0 {
		return
	}
	_, later := e.backoffs.of(e.d.graph, now)
	later = later || o.Bars != "" || o.Unfinished != "" || e.failures[e.d.graph].pauses(now)
	e.d.stands = map[string]bool{}
	domains := gang.NewRecordedDomains(*o)
	for _, releases := range waiting {
		name := releases[0].Pin.Gang
		if later {
			e.d.stands[name] = true
			continue
		}
		if !domains.Satisfy(releases) || !e.takeRecorded(releases) {
			domains.Fail(releases)
			continue
		}
		e.d.stands[name], e.d.byRecord = true, true
		for _, release := range releases {
			e.beginRelease(release, e.d.graph)
			if len(release.Undecided) > 0 { // a plan would consider these domains decided
				o.Unfinished = gang.FollowsRecorded
			}
		}
		e.d.releases = append(e.d.releases, releases...)
	}
}

// takeRecorded reserves the recorded hosts of pods, if these hosts have capacity for all of the pods. It reports whether it has reserved
// the hosts.
func (s *state) takeRecorded(releases []gang.Release) bool {
	for _, release := range releases {
		name := client.ObjectKeyFromObject(release.Pod)
		s.cluster.Forget(holdID(name))
		delete(s.holds.byPod, name)
	}
	s.cluster.Begin()
	for _, release := range releases {
		id, shape := topology.PodID(release.Pod), topology.ShapeOf(release.Pod)
		s.cluster.Forget(id)
		sg := release.Group
		inDomain := release.Domain.Contains(gang.LevelsOf(sg.Spec.Topology).PathOf(s.cluster.NodeLabels(release.Pin.Node)))
		if _, excluded := s.cluster.Why(release.Pin.Node, shape); excluded || !inDomain || s.cluster.NodeLabels(release.Pin.Node) == nil {
			s.cluster.Rollback()
			return false
		}
		s.cluster.AssumePinned(id, release.Pin.Node, shape, release.Pin.Labels)
	}
	s.cluster.Commit()
	return true
}

// giveBackRecorded drops the releases of a decision that evicts gangs, since such a decision releases nothing.
func (e *evaluation) giveBackRecorded() {
	if len(e.d.evicted) == 0 {
		return
	}
	for _, release := range e.d.releases {
		e.giveBackRelease(release)
	}
	e.d.releases = nil
}
