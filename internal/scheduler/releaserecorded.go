// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// releaseRecorded releases the gated and planned pods of assigned gangs to their recorded hosts, if these have capacity for the entire
// gang: an earlier leader assigned them, or their release failed. Other gangs are planned again.
func (l *ledger) releaseRecorded(o *gang.Observation, d *decision) {
	if o.Record == nil || o.Unfinished == gang.ConstraintRefreshed {
		return
	}
	now := l.clock.Now()
	l.pods.resume(o.Pods)
	l.forsakenGivenBack(o.Pods)
	o.Releasing, _ = l.pods.observed(o.Pods)
	waiting := gang.RecordedReleases(*o)
	if len(waiting) == 0 {
		return
	}
	_, later := l.backoffs.of(d.graph, now)
	later = later || o.Bars != "" || o.Unfinished != "" || l.failures[d.graph].pauses(now)
	d.stands = map[string]bool{}
	domains := gang.NewRecordedDomains(*o)
	for _, releases := range waiting {
		name := releases[0].Pin.Gang
		if later {
			d.stands[name] = true
			continue
		}
		if !domains.Satisfy(releases) || !l.takeRecorded(releases) {
			domains.Fail(releases)
			continue
		}
		d.stands[name], d.byRecord = true, true
		for _, release := range releases {
			l.beginRelease(release, d.graph)
			if len(release.Undecided) > 0 { // a plan would take these domains for decided
				o.Unfinished = gang.FollowsRecorded
			}
		}
		d.releases = append(d.releases, releases...)
	}
}

// takeRecorded reserves the recorded hosts of pods, if they have capacity for all of them.
func (l *ledger) takeRecorded(releases []gang.Release) bool {
	for _, release := range releases {
		name := client.ObjectKeyFromObject(release.Pod)
		l.cluster.Forget(holdID(name))
		delete(l.holds.byPod, name)
	}
	l.cluster.Begin()
	for _, release := range releases {
		id, shape := topology.PodID(release.Pod), topology.ShapeOf(release.Pod)
		l.cluster.Forget(id)
		sg := release.Group
		inDomain := release.Domain.Contains(gang.LevelsOf(sg.Spec.Topology).PathOf(l.cluster.NodeLabels(release.Pin.Node)))
		if _, excluded := l.cluster.Why(release.Pin.Node, shape); excluded || !inDomain || l.cluster.NodeLabels(release.Pin.Node) == nil {
			l.cluster.Rollback()
			return false
		}
		l.cluster.AssumePinned(id, release.Pin.Node, shape, release.Pin.Labels)
	}
	l.cluster.Commit()
	return true
}

// giveBackRecorded drops the releases of a decision to evict gangs.
func (l *ledger) giveBackRecorded(d *decision) {
	if len(d.evicted) == 0 {
		return
	}
	for _, release := range d.releases {
		l.giveBackRelease(release)
	}
	d.releases = nil
}
