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

// released is what is remembered of one pod from the decision to release it until it is bound, and of pods of a gang that is evicted until
// they are gone. Of a pod with the zero value nothing is remembered.
type released struct {
	// releasing: the release is under way, and the pod may still look gated in the cache. domain is where it goes, attempt that of its
	// replica.
	releasing bool
	domain    topology.Path
	attempt   int32
	// at is when it was released, for the metrics.
	at time.Time
	// preempting: others have to free capacity for it.
	preempting bool
	// begun: another pod of its gang is released, so a release that fails does not cost it its capacity. failed: its release has failed, and
	// is not tried again yet.
	begun, failed bool
	// gang whose other pods are released, while it is begun.
	gang string
	// stuck: it is unschedulable, as its scheduler reports on it. objected: the provider's scheduler objects to it in objects of its own.
	stuck, objected against
	// anywhere is since when its scheduler has refused it wherever it is to go.
	anywhere time.Time
	// parted: the rest of its replica, which was never whole, finds no capacity. The pod itself may be bound.
	parted parted
	// idle: no scheduler has tried to bind it.
	idle idle
	// unreserved is why its reservation has ended; "" while it has one. withoutPlace is the pod, while it has none.
	unreserved   string
	withoutPlace *corev1.Pod
	// requeued: its gang is requeued; follows: because the base gang of its graph is; uncreated: because not all of it could be created.
	// evicted: the pod is evicted for that.
	requeued, follows, uncreated, evicted bool
}

// against is what stands against binding a pod; the zero value is nothing.
type against struct {
	// since is what the time until its gang is requeued counts from. first is when it began, before pods that had to leave were waited for.
	since, first time.Time
	// node is where other pods have to leave for it; "" when none have to.
	node string
	// said is the scheduler's message. former: a pod that had to leave has left since it was written, so it is about an earlier state.
	said   string
	former bool
}

type parted struct {
	since time.Time
	why   string
}

// idle is since when a pod has looked as its signs show, which are its gates and its nominated node.
type idle struct {
	since time.Time
	signs string
}

func (a *against) stands() bool { return !a.first.IsZero() }

// set notes or ends what stands against a pod; "" is nothing. A state that is known keeps its times.
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

// visible ends what is followed of a release that the API shows by now.
func (r *released) visible() {
	r.releasing, r.domain, r.attempt, r.begun, r.gang, r.failed = false, nil, 0, false, "", false
}

// bound ends what is followed until the pod is bound.
func (r *released) bound() { r.at, r.preempting = time.Time{}, false }

// notIdle ends that nothing tries to bind the pod: it is to have a reservation again, where there is capacity.
func (r *released) notIdle() { r.idle, r.unreserved, r.withoutPlace = idle{}, "", nil }

// consented: its scheduler does not refuse it anywhere any more. It is to have a reservation again, and all of its time.
func (r *released) consented(now time.Time) {
	r.anywhere, r.unreserved, r.withoutPlace = time.Time{}, "", nil
	if !r.idle.since.IsZero() {
		r.idle.since = now
	}
}

// refused reports whether something stands against the pod.
func (r *released) refused() bool { return r.stuck.stands() || r.objected.stands() }

// former reports whether what stands against the pod is about a state before a pod left that had to.
func (r *released) former() bool { return r.stuck.former || !r.stuck.stands() && r.objected.former }

// refusedSince is when what stands against the pod began; false when nothing does.
func (r *released) refusedSince() (first time.Time, refused bool) {
	if r.stuck.stands() {
		return r.stuck.first, true
	}
	return r.objected.first, r.objected.stands()
}

// releasedPods are the records, by pod ID. A record with nothing left in it is dropped: records change only in [releasedPods.change].
type releasedPods struct {
	byID map[string]*released
	// refused are those against which something stands.
	refused map[string]*released
}

func newReleasedPods() releasedPods {
	return releasedPods{byID: map[string]*released{}, refused: map[string]*released{}}
}

// of returns what is remembered of a pod.
func (p *releasedPods) of(id string) released {
	if r := p.byID[id]; r != nil {
		return *r
	}
	return released{}
}

// change changes the record of a pod, which is made when there is none and dropped when nothing of it is left.
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

// follow takes in a pod's new state.
func (p *releasedPods) follow(pod *corev1.Pod, id string, now time.Time) {
	if p.byID[id] == nil && !gang.WaitsForScheduler(pod) {
		return // as most pods of a cluster
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

// notReleased ends what is followed of a release that has failed.
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

// bound returns how long a pod that is bound now took for it; false when that is not known or was returned before.
func (p *releasedPods) bound(id string, now time.Time) (took time.Duration, known bool) {
	if p.byID[id] != nil {
		p.change(id, func(r *released) {
			took, known = now.Sub(r.at), !r.at.IsZero()
			r.bound()
		})
	}
	return took, known
}

// setParted notes why the rest of the pod's replica is refused; "" when it is not.
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

// restart counts the time of a pod from now on: when what stands against it anywhere is over, its scheduler gets all of it.
func (p *releasedPods) restart(id string, now time.Time) {
	p.change(id, func(r *released) {
		for _, one := range []*against{&r.stuck, &r.objected} {
			if one.stands() {
				one.since, one.first = now, now
			}
		}
	})
}

// left counts the time of the pods that waited for another one to leave a node from now on: their scheduler may bind them only now.
func (p *releasedPods) left(node string, isVictim func(first time.Time) bool, now time.Time) {
	for _, r := range p.refused {
		for _, one := range []*against{&r.stuck, &r.objected} {
			if one.stands() && one.node == node && isVictim(one.first) {
				one.since, one.former = now, true
			}
		}
	}
}

// observed are, of some pods, the domains of those whose release is under way, and why others have no reservation.
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
