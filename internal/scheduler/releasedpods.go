// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// released is the state of one pod from the decision to release it until it is bound, or, if its gang is evicted, until it is gone. The
// zero value means that there is nothing to remember.
type released struct {
	// releasing: the release is under way, and the pod may still look gated in the cache. domain is the domain to which it is released,
	// attempt the attempt of its replica.
	releasing bool
	domain    topology.Path
	attempt   int32
	// at is when the release began, for the metrics and to detect pods that are not created in time.
	at time.Time
	// preempting: other pods have to free capacity for it.
	preempting bool
	// begun: another pod of its gang is released, so it keeps its capacity if its release fails. failed: its release has failed, and has not
	// been tried again yet.
	begun, failed bool
	// gang is the gang whose other pods are released, while begun is set.
	gang string
	// stuck: its scheduler reports that it is unschedulable. objected: the provider's scheduler objects to it in the provider's own objects.
	stuck, objected against
	// anywhere is the time since which its scheduler would refuse it in any place.
	anywhere time.Time
	// parted: the rest of its replica, which was never complete, finds no capacity. The pod itself may be bound.
	parted parted
	// idle: no scheduler has tried to bind it.
	idle idle
	// unreserved is why its reservation has ended; "" while it has one. withoutPlace is the pod itself, while it has no reservation.
	unreserved   string
	withoutPlace *corev1.Pod
	// requeued: its gang is requeued; follows: because the base gang of its graph is requeued; uncreated: because not all pods of the gang
	// could be created. evicted: the pod is evicted with its requeued gang.
	requeued, follows, uncreated, evicted bool
}

// against is a refusal to bind a pod; the zero value is no refusal.
type against struct {
	// since is the start of the time until its gang is requeued. first is when the refusal began; since is later if the gang has waited for
	// pods that had to leave.
	since, first time.Time
	// node is the node that other pods have to leave for it; "" if none have to.
	node string
	// said is the scheduler's message. former: a pod that had to leave has left since the message was written, so the message is about an
	// earlier state.
	said   string
	former bool
}

type parted struct {
	since time.Time
	why   string
}

// idle is the time since which the signs of a pod, its gates and its nominated node, have not changed.
type idle struct {
	since time.Time
	signs string
}

func (a *against) stands() bool { return !a.first.IsZero() }

// set sets a refusal, or ends it if said is "". A refusal that already stands keeps its times.
func (a *against) set(said, node string, now time.Time) {
	if said == "" {
		*a = against{}
		return
	}
	if !a.stands() {
		a.since, a.first = now, now
	}
	a.node, a.said, a.former = node, said, a.former && said == a.said
}

// visible clears the state of a release that the API shows by now.
func (r *released) visible() {
	r.releasing, r.domain, r.attempt, r.begun, r.gang, r.failed = false, nil, 0, false, "", false
}

// bound clears the state that is kept until the pod is bound.
func (r *released) bound() { r.at, r.preempting = time.Time{}, false }

// notIdle clears the idle state, so that the pod gets a reservation again, if there is capacity.
func (r *released) notIdle() { r.idle, r.unreserved, r.withoutPlace = idle{}, "", nil }

// consented clears the refusal in any place, after the scheduler has withdrawn it. The pod gets a reservation again, and its full time to
// be bound.
func (r *released) consented(now time.Time) {
	r.anywhere, r.unreserved, r.withoutPlace = time.Time{}, "", nil
	if !r.idle.since.IsZero() {
		r.idle.since = now
	}
}

// refused reports whether a refusal of the pod stands.
func (r *released) refused() bool { return r.stuck.stands() || r.objected.stands() }

// former reports whether the refusal of the pod is about the state before a pod left that had to leave.
func (r *released) former() bool { return r.stuck.former || !r.stuck.stands() && r.objected.former }

// refusedSince returns when the refusal of the pod began; false if there is none.
func (r *released) refusedSince() (first time.Time, refused bool) {
	if r.stuck.stands() {
		return r.stuck.first, true
	}
	return r.objected.first, r.objected.stands()
}

// releasedPods has the states of pods, by pod ID. States change only in [releasedPods.change], which drops a state with nothing left in it.
type releasedPods struct {
	byID map[string]*released
	// refused are the states of the pods whose refusal stands.
	refused map[string]*released
}

func newReleasedPods() releasedPods {
	return releasedPods{byID: map[string]*released{}, refused: map[string]*released{}}
}

// of returns the state of a pod.
func (p *releasedPods) of(id string) released {
	if r := p.byID[id]; r != nil {
		return *r
	}
	return released{}
}

// change changes the state of a pod. It creates the state if there is none, and drops it if nothing is left in it.
func (p *releasedPods) change(id string, f func(*released)) {
	r := p.byID[id]
	if r == nil {
		r = &released{}
	}
	if f(r); reflect.ValueOf(r).Elem().IsZero() {
		p.forget(id)
		return
	}
	p.byID[id] = r
	if r.refused() {
		p.refused[id] = r
	} else {
		delete(p.refused, id)
	}
}

func (p *releasedPods) forget(id string) {
	delete(p.byID, id)
	delete(p.refused, id)
}

// follow updates the state of a pod from its object.
func (p *releasedPods) follow(pod *corev1.Pod, id string, now time.Time) {
	if p.byID[id] == nil && !gang.WaitsForScheduler(pod) {
		return // as for most pods of a cluster
	}
	p.change(id, func(r *released) {
		if pod.Spec.NodeName != "" || !render.GateClosed(pod) || pod.DeletionTimestamp != nil {
			r.visible()
		}
		waits, said := gang.WaitsForScheduler(pod), gang.WhyUnschedulable(pod)
		if !waits {
			said = ""
		}
		if r.stuck.set(said, pod.Status.NominatedNodeName, now); !waits || said != "" {
			r.notIdle()
			return
		}
		if signs := fmt.Sprint(pod.Spec.SchedulingGates, pod.Status.NominatedNodeName); signs != r.idle.signs {
			r.notIdle()
			r.idle = idle{since: now, signs: signs}
		}
	})
}

func (p *releasedPods) begin(r gang.Release, now time.Time) {
	p.change(topology.PodID(r.Pod), func(pod *released) {
		pod.releasing, pod.domain, pod.at, pod.failed = true, r.Domain, now, false
		pod.preempting = pod.preempting || r.Pin.Preempts
	})
}

// notReleased clears the state of a release that has failed.
func (p *releasedPods) notReleased(id string) {
	p.change(id, func(r *released) {
		r.visible()
		r.bound()
	})
}

// resume has the pods whose release failed planned again.
func (p *releasedPods) resume(pods []*corev1.Pod) {
	for _, pod := range pods {
		if id := topology.PodID(pod); p.of(id).failed {
			p.change(id, func(r *released) { r.releasing, r.domain = false, nil })
		}
	}
}

// bound returns how long a pod that is bound now took to be bound; false if that is not known or was returned before.
func (p *releasedPods) bound(id string, now time.Time) (took time.Duration, known bool) {
	if p.byID[id] != nil {
		p.change(id, func(r *released) {
			took, known = now.Sub(r.at), !r.at.IsZero()
			r.bound()
		})
	}
	return took, known
}

// setParted sets why the rest of the pod's replica is refused; "" if it is not refused.
func (p *releasedPods) setParted(id, why string, now time.Time) {
	if why == "" && p.byID[id] == nil {
		return
	}
	p.change(id, func(r *released) {
		switch {
		case why == "":
			r.parted = parted{}
		case r.parted.why == "":
			r.parted = parted{since: now, why: why}
		default:
			r.parted.why = why
		}
	})
}

// restart restarts the times of a pod's refusals. It is called while the pod's scheduler would refuse it in any place, so that the
// scheduler gets the full time once that is over.
func (p *releasedPods) restart(id string, now time.Time) {
	p.change(id, func(r *released) {
		for _, one := range []*against{&r.stuck, &r.objected} {
			if one.stands() {
				one.since, one.first = now, now
			}
		}
	})
}

// left restarts the times of the pods that waited for another pod to leave a node, because their scheduler can bind them only now.
func (p *releasedPods) left(node string, isVictim func(first time.Time) bool, now time.Time) {
	for _, r := range p.refused {
		for _, one := range []*against{&r.stuck, &r.objected} {
			if one.stands() && one.node == node && isVictim(one.first) {
				one.since, one.former = now, true
			}
		}
	}
}

// observed returns, for pods whose release is under way, their domains, and for pods without a reservation why they have none.
func (p *releasedPods) observed(pods []*corev1.Pod) (releasing map[string]topology.Path, unreserved map[string]string) {
	releasing, unreserved = map[string]topology.Path{}, map[string]string{}
	for _, pod := range pods {
		id := topology.PodID(pod)
		r := p.byID[id]
		if r != nil && r.releasing {
			releasing[id] = r.domain
		}
		if r != nil && r.unreserved != "" {
			unreserved[id] = r.unreserved
		}
	}
	return releasing, unreserved
}
