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

// released is the state of one pod, from the decision to release it until it is bound or, if its gang is evicted, gone. A bound pod may
// still be parted. The zero value means that there is nothing to remember.
type released struct {
	// releasing: the release is under way, and the pod may still look gated in the cache. domain is the domain to which the pod is
	// released. attempt is the attempt of the pod's replica.
	releasing bool
	domain    topology.Path
	attempt   int32
	// at is when the release began, for the metrics and to detect pods that are not created in time.
	at time.Time
	// preempting: other pods must be preempted for this pod.
	preempting bool
	// begun: another pod of the gang is released, so this pod keeps its capacity if its own release fails. failed: the release of this pod
	// has failed, and is not retried yet.
	begun, failed bool
	// gang is the name of the pod's gang, while begun is set.
	gang string
	// stuck is the scheduler's report that the pod is unschedulable. objected is the objection of the provider's scheduler, from the
	// provider's own objects.
	stuck, objected against
	// anywhere is the time since which the scheduler would refuse the pod in every place.
	anywhere time.Time
	// parted: plans refuse other pods of the pod's replica or base gang, which was never complete. The pod itself may be bound.
	parted parted
	// idle: no scheduler has tried to bind the pod.
	idle idle
	// unreserved is the reason why the pod's reservation has ended; "" while the pod has a reservation. withoutPlace is the pod object
	// while the pod has no reservation.
	unreserved   string
	withoutPlace *corev1.Pod
	// requeued: the gang is requeued. follows: it is requeued because the graph's base gang is requeued. uncreated: it is requeued because
	// not all of its pods could be created. evicted: the pod is evicted with the requeued gang.
	requeued, follows, uncreated, evicted bool
}

// against is a refusal to bind a pod; the zero value is no refusal.
type against struct {
	// first is the start of the refusal. since is the start of the wait after which the gang is requeued. If a preemption victim has left
	// the node after first, the wait has started again at that time.
	since, first time.Time
	// node is the node that preemption victims must leave for the pod; "" if there are none.
	node string
	// said is the scheduler's message. former: a victim has left the node since the message was written, so the message describes an
	// earlier state.
	said   string
	former bool
}

type parted struct {
	since time.Time
	why   string
}

// idle has, in signs, the scheduling gates and the nominated node of a pod, and in since the time of their last change.
type idle struct {
	since time.Time
	signs string
}

func (a *against) stands() bool { return !a.first.IsZero() }

// set sets a refusal, or clears it if said is "". An existing refusal keeps its times.
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

// visible clears the release state of a pod, because the API now shows that the pod is released.
func (r *released) visible() {
	r.releasing, r.domain, r.attempt, r.begun, r.gang, r.failed = false, nil, 0, false, "", false
}

// bound clears the state that is kept until the pod is bound.
func (r *released) bound() { r.at, r.preempting = time.Time{}, false }

// notIdle clears the idle state, so that the pod gets a reservation again, if there is capacity.
func (r *released) notIdle() { r.idle, r.unreserved, r.withoutPlace = idle{}, "", nil }

// consented updates the state of a pod after the scheduler has withdrawn its refusal of the pod in every place. The pod gets a reservation
// again, and has the full time to be bound again.
func (r *released) consented(now time.Time) {
	r.anywhere, r.unreserved, r.withoutPlace = time.Time{}, "", nil
	if !r.idle.since.IsZero() {
		r.idle.since = now
	}
}

// refused reports whether a scheduler refuses the pod now.
func (r *released) refused() bool { return r.stuck.stands() || r.objected.stands() }

// former reports whether the pod's refusal describes the state before a preemption victim left the node.
func (r *released) former() bool { return r.stuck.former || !r.stuck.stands() && r.objected.former }

// refusedSince returns when the refusal of the pod began; false if there is none.
func (r *released) refusedSince() (first time.Time, refused bool) {
	if r.stuck.stands() {
		return r.stuck.first, true
	}
	return r.objected.first, r.objected.stands()
}

// releasedPods has the states of pods, by pod ID. States change only in [releasedPods.change], which deletes a state that is the zero
// value.
type releasedPods struct {
	byID map[string]*released
	// refused has the states of the pods that a scheduler refuses now.
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

// change applies f to the state of a pod. It creates a missing state, and deletes a state that is the zero value after the change.
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

// resume ends the release state of pods whose release failed, so that these pods are planned again.
func (p *releasedPods) resume(pods []*corev1.Pod) {
	for _, pod := range pods {
		if id := topology.PodID(pod); p.of(id).failed {
			p.change(id, func(r *released) { r.releasing, r.domain = false, nil })
		}
	}
}

// bound returns the time from a pod's release until now, when the pod is bound; false if the time is not known or was returned before.
func (p *releasedPods) bound(id string, now time.Time) (took time.Duration, known bool) {
	if p.byID[id] != nil {
		p.change(id, func(r *released) {
			took, known = now.Sub(r.at), !r.at.IsZero()
			r.bound()
		})
	}
	return took, known
}

// setParted sets the reason why the other pods of a pod's replica are refused; "" if they are not refused.
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

// restart restarts the times of a pod's refusals. It is called while the scheduler would refuse the pod in every place, so that the
// scheduler afterwards gets the full time to bind the pod.
func (p *releasedPods) restart(id string, now time.Time) {
	p.change(id, func(r *released) {
		for _, one := range []*against{&r.stuck, &r.objected} {
			if one.stands() {
				one.since, one.first = now, now
			}
		}
	})
}

// left restarts the refusal times of pods that waited until a victim left a node, because their scheduler could not bind them before.
func (p *releasedPods) left(node string, isVictim func(first time.Time) bool, now time.Time) {
	for _, r := range p.refused {
		for _, one := range []*against{&r.stuck, &r.objected} {
			if one.stands() && one.node == node && isVictim(one.first) {
				one.since, one.former = now, true
			}
		}
	}
}

// observed returns, by pod ID, the domains of the pods whose release is under way, and the reasons why pods have no reservation.
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
