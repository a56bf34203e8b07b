// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// inFlight follows pods, by ID, from the decision to release them until they are bound.
type inFlight struct {
	// domains are where pods go whose release is under way and which may still look gated in the cache.
	domains map[string]topology.Path
	// since is when the pod was released, for the metrics.
	since map[string]time.Time
	// preempting are the pods for which others have to free capacity.
	preempting map[string]bool
	// begun are gated pods of gangs of which another pod is released: a release that fails does not cost them their capacity. failed are those
	// of them whose release has failed, until it is tried again.
	begun, failed map[string]bool
}

func newInFlight() inFlight {
	return inFlight{domains: map[string]topology.Path{}, since: map[string]time.Time{}, preempting: map[string]bool{}, begun: map[string]bool{}, failed: map[string]bool{}}
}

func (f *inFlight) begin(r gang.Release, now time.Time) {
	id := topology.PodID(r.Pod)
	f.domains[id], f.since[id] = r.Domain, now
	delete(f.failed, id)
	if r.Pin.Preempts {
		f.preempting[id] = true
	}
}

// visible ends what is followed of a release that the API shows by now.
func (f *inFlight) visible(id string) {
	delete(f.domains, id)
	delete(f.begun, id)
	delete(f.failed, id)
}

// resume has the pods whose release failed planned again.
func (f *inFlight) resume(pods []*corev1.Pod) {
	for _, pod := range pods {
		if id := topology.PodID(pod); f.failed[id] {
			delete(f.domains, id)
		}
	}
}

// bound returns how long a pod that is bound now took for it; false when that is not known or was returned before.
func (f *inFlight) bound(id string, now time.Time) (time.Duration, bool) {
	since, known := f.since[id]
	delete(f.since, id)
	delete(f.preempting, id)
	return now.Sub(since), known
}

// unpromised: nobody frees capacity for the pod any more.
func (f *inFlight) unpromised(id string) { delete(f.preempting, id) }

func (f *inFlight) forget(id string) {
	f.visible(id)
	delete(f.since, id)
	delete(f.preempting, id)
}
