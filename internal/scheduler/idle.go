// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// servedPatience is how many times as long a pod waits for a scheduler that is known to bind others: it may have many pods to go through.
const servedPatience = 10

// idlePods follows released pods that no scheduler tries to bind: their schedulerName is nobody's, or somebody else's gate is closed. The
// reservation of such a pod ends after a time, so that it does not keep others out for good. It comes back, where there is capacity, when the
// gates or the nominated node of the pod change. A scheduler that finds no capacity for the pod then says so, and its gang is evicted.
type idlePods struct {
	patience time.Duration
	// since is when the pod was first seen like this, by ID; objected is since when its scheduler has refused it wherever it is to go.
	since    map[string]idleSince
	objected map[string]time.Time
	// ended are the pods without a reservation, and why.
	ended map[string]string
	// served are the schedulers that have bound a pod or said why not.
	served *lru.Cache
}

// Of schedulers that were seen at work as many are remembered, the latest ones, and names of up to so many bytes: anybody who may create pods gives names.
const (
	maxServed      = 1024
	maxServedBytes = 253
)

type idleSince struct {
	time time.Time
	// signs are the gates and the nominated node.
	signs string
}

func newIdlePods(patience time.Duration) idlePods {
	return idlePods{patience: patience, since: map[string]idleSince{}, objected: map[string]time.Time{}, ended: map[string]string{}, served: lru.New(maxServed)}
}

// isServed says that a scheduler was seen at work, or is one that Trellis itself asks to bind pods.
func (p *idlePods) isServed(name string) bool {
	_, seen := p.served.Get(name)
	return seen || name == corev1.DefaultSchedulerName || name == specs.KAI.SchedulerName
}

// track takes in a pod's new state.
func (p *idlePods) track(pod *corev1.Pod, id string, now time.Time) {
	if pod.Spec.NodeName != "" || gang.WhyUnschedulable(pod) != "" {
		if name := schedulerOf(pod); len(name) <= maxServedBytes {
			p.served.Add(name, true)
		}
	}
	if !gang.WaitsForScheduler(pod) || gang.WhyUnschedulable(pod) != "" {
		p.forget(id)
		return
	}
	signs := fmt.Sprint(pod.Spec.SchedulingGates, pod.Status.NominatedNodeName)
	if entry, known := p.since[id]; !known || entry.signs != signs {
		p.since[id] = idleSince{time: now, signs: signs}
		delete(p.ended, id)
	}
}

func (p *idlePods) forget(id string) {
	delete(p.since, id)
	delete(p.ended, id)
}

// gone forgets all of a pod.
func (p *idlePods) gone(id string) {
	p.forget(id)
	delete(p.objected, id)
}

// object takes in what the provider's scheduler says of a released pod. The reservation of a pod that it would refuse anywhere, by a quota for example,
// ends after a time, too, and comes back with the scheduler's consent.
func (p *idlePods) object(id string, o gang.Objection, now time.Time) (why string, again time.Time) {
	since, known := p.objected[id]
	switch {
	case !o.Anywhere && known:
		delete(p.objected, id)
		delete(p.ended, id)
		if entry, idle := p.since[id]; idle {
			entry.time = now
			p.since[id] = entry
		}
		return "", time.Time{}
	case !o.Anywhere:
		return "", time.Time{}
	case !known:
		since, p.objected[id] = now, now
	}
	if due := since.Add(p.patience * servedPatience); now.Before(due) {
		return "", due
	}
	return o.Message + notReserved, time.Time{}
}

// notReserved ends a message about a pod whose reservation has ended.
const notReserved = ", so its capacity is not reserved any more"

// look says why the pod's reservation ends now, or else when to look again; the zero time when there is nothing to look for.
func (p *idlePods) look(pod *corev1.Pod, id string, now time.Time) (why string, again time.Time) {
	entry, known := p.since[id]
	if !known {
		return "", time.Time{}
	}
	patience, name := p.patience, schedulerOf(pod)
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		why = fmt.Sprintf("pod %s has the scheduling gate %q, which is not Trellis'", pod.Name, pod.Spec.SchedulingGates[0].Name)
	case p.isServed(name):
		patience *= servedPatience
		why = fmt.Sprintf("the scheduler %q has not tried to bind pod %s for %s", name, pod.Name, patience)
	default:
		why = fmt.Sprintf("no scheduler with the name %q has tried to bind pod %s", name, pod.Name)
	}
	if due := entry.time.Add(patience); now.Before(due) {
		return "", due
	}
	return why + notReserved, time.Time{}
}

func schedulerOf(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)
}

// endIdleReservations ends the reservations of pods that nothing tries to bind. Called with the lock held.
func (s *Scheduler) endIdleReservations(o gang.Observation) {
	now := s.options.Clock.Now()
	for _, pod := range o.Pods {
		id := topology.PodID(pod)
		why, again := s.idle.object(id, o.Objections[pod.UID], now)
		if why == "" && again.IsZero() {
			why, again = s.idle.look(pod, id, now)
		}
		if !again.IsZero() {
			s.queue.addAt(client.ObjectKeyFromObject(o.DGD), again)
		}
		if why == "" || s.idle.ended[id] != "" {
			continue
		}
		s.idle.ended[id] = why
		s.inFlight.unpromised(id)
		s.cluster.Forget(id)
	}
}
