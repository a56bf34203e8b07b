// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// learnFrom records the places in which a scheduler refused pods of the gangs that are evicted now, and appends the excluded places to the
// eviction reason. One evaluation counts a refused place once, however many pods were refused there. learnFrom skips a gang whose scheduler
// has not tried again since the preemption victims terminated: kube-scheduler 1.37 then retries a pod group only if the first placement
// that it tried lacked resources. The capacity of a skipped gang is held, so that the gang gets the same place.
func (p *refusedPlaces) learnFrom(o gang.Observation, gangs map[string]eviction, evicted map[string]bool) {
	bound, former := map[string][]string{}, map[string]bool{}
	for _, pod := range o.Pods {
		of, record := pod.Annotations[render.AnnotationGang], p.pods.of(topology.PodID(pod))
		if pod.Spec.NodeName != "" {
			bound[of] = append(bound[of], pod.Spec.NodeName)
		}
		former[of] = former[of] || record.former()
	}
	round := learning{graph: client.ObjectKeyFromObject(o.DGD), places: map[string]bool{}}
	for _, pod := range o.Pods {
		of := pod.Annotations[render.AnnotationGang]
		if !evicted[of] || !gangs[of].refused() || former[of] {
			continue
		}
		said := p.refusalOf(o, pod)
		if tried, somewhere := gang.TriedFor(o.Groups, pod); said != "" && somewhere {
			tried.Hosts = without(tried.Hosts, bound[of])
			p.learn(&round, tried, limit.Text(said, assignment.MaxRefusedMessage))
		}
	}
	for of := range evicted {
		e := gangs[of]
		switch {
		case !e.refused():
			continue
		case former[of]:
			e.why += "; its scheduler has not tried again since the pods that had to leave have terminated"
		case len(round.names) > 0:
			e.why += "; left out for such pods: " + limit.Join(round.names, len(round.names), maxNames, ", ")
		}
		gangs[of] = e
	}
}

// refused reports whether a gang is evicted because a scheduler does not bind it.
func (e eviction) refused() bool {
	return !e.follows && (e.reason == ReasonUnschedulable || e.reason == gang.CodeSchedulerRefuses)
}

// without returns the hosts that are not in bound. bound has the hosts with bound pods of the gang. There, the capacity that the gang
// itself uses may be the reason for the refusal. If no host is left, without returns all hosts.
func without(hosts, bound []string) []string {
	left := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool { return slices.Contains(bound, host) })
	if len(left) == 0 {
		return hosts
	}
	return left
}

// learning collects the refused places that one evaluation adds for a graph.
type learning struct {
	graph types.NamespacedName
	// places are the added places, by shape and name. names are the names of the added places, in order.
	places map[string]bool
	names  []string
}

// first adds a place, and reports whether this evaluation had not added the place before.
func (n *learning) first(shape, name string) bool {
	key := shape + "\x00" + name
	if n.places[key] {
		return false
	}
	n.places[key] = true
	if !slices.Contains(n.names, name) {
		n.names = append(n.names, name)
	}
	return true
}

// forget removes a host from names, because its domain is named instead.
func (n *learning) forget(name string) {
	n.names = slices.DeleteFunc(n.names, func(one string) bool { return one == name })
}

// refusalOf returns why a scheduler refuses a released pod in its place. It returns "" if the scheduler does not refuse the pod, has only a
// passing objection, or would refuse the pod in every other place too.
func (p *refusedPlaces) refusalOf(o gang.Observation, pod *corev1.Pod) string {
	if !gang.WaitsForScheduler(pod) || o.Objections[pod.UID].Anywhere {
		return ""
	}
	if record := p.pods.of(topology.PodID(pod)); record.stuck.stands() {
		return gang.WhyUnschedulable(pod)
	}
	if objection := o.Objections[pod.UID]; !objection.Passing {
		return objection.Message
	}
	return ""
}

// objectionTo returns the objection of the provider's scheduler to a pod; "" for none.
func objectionTo(o gang.Observation, pod *corev1.Pod) string {
	if objection, objected := o.Objections[pod.UID]; objected {
		return cmp.Or(objection.Message, "no reason given")
	}
	return ""
}

// learn adds the places in which a pod was refused: the hosts that t names or, if t names no hosts, the domain to which the pod is pinned.
func (p *refusedPlaces) learn(round *learning, t gang.Tried, said string) {
	if len(t.Hosts) == 0 {
		p.learnDomain(round, t, t.Domain, said)
		return
	}
	for _, host := range t.Hosts {
		path := p.domainOf(t.Levels, host)
		if !round.first(t.Shape, "host "+host) {
			continue
		}
		p.refused(round.graph, assignment.Refused{Shape: t.Shape, Place: topology.Refused{Host: host}, Domain: path, Message: said})
		if p.refusesMost(round.graph, t, path) {
			p.places.keep(round.graph, func(one *assignment.Refused) bool { // a refusal of the domain includes its hosts
				within := one.Shape == t.Shape && one.Place.Host != "" && one.Domain.Equal(path)
				if within {
					round.forget(one.Name())
				}
				return !within
			})
			p.learnDomain(round, t, path, said)
		}
	}
}

func (p *refusedPlaces) learnDomain(round *learning, t gang.Tried, path topology.Path, said string) {
	if name := path.String(); round.first(t.Shape, name) {
		p.refused(round.graph, assignment.Refused{Shape: t.Shape, Place: topology.Refused{Labels: t.Labels(path)}, Domain: path, Message: said})
	}
}

// domainOf returns the narrowest domain of a host, above the host itself.
func (p *refusedPlaces) domainOf(levels topology.Levels, host string) topology.Path {
	path := levels.PathOf(p.cluster.NodeLabels(host))
	if at := levels.IndexOfKey(corev1.LabelHostname); at != topology.NoLevel {
		path = path.Truncate(at - 1)
	}
	return path
}

// refusesMost reports whether a scheduler has refused so many hosts of a domain, or has refused hosts there so often, that it is likely to
// refuse the domain's other hosts too.
func (p *refusedPlaces) refusesMost(graph types.NamespacedName, t gang.Tried, path topology.Path) bool {
	if len(path) == 0 {
		return false
	}
	refused, evictions := 0, map[time.Time]bool{}
	for _, one := range p.places[graph] {
		if one.Shape == t.Shape && one.Place.Host != "" && one.Domain.Equal(path) {
			refused++
			evictions[one.Last] = true
		}
	}
	hosts, within := 0, topology.Refused{Labels: t.Labels(path)}
	p.cluster.EachNode(func(n topology.NodeID) {
		if within.Covers(p.cluster.NodeName(n), p.cluster.LabelsOf(n)) {
			hosts++
		}
	})
	return refused >= min(wholeFrom, hosts) && (refused*wholeShare >= hosts || len(evictions) >= wholeFrom)
}

// refused adds a refusal, and excludes the place for twice as long as after the last refusal.
func (p *refusedPlaces) refused(graph types.NamespacedName, now assignment.Refused) {
	at := p.clock.Now()
	var least *assignment.Refused
	n := 0
	for i := range p.places[graph] {
		one := &p.places[graph][i]
		if one.Shape != now.Shape {
			continue
		}
		if one.Overlaps(&now) && !forgotten(one, at) {
			now.Times = max(now.Times, one.Times)
		}
		if !one.Place.Equal(now.Place) {
			if n++; least == nil || one.Times < least.Times {
				least = one
			}
		}
	}
	if n >= maxRefusals {
		place := least.Place
		p.places.keep(graph, func(one *assignment.Refused) bool { return one.Shape != now.Shape || !one.Place.Equal(place) })
	}
	out := doubled(p.requeueAfter, lastRefusal, now.Times)
	if now.Times > 0 {
		out = max(out, p.untilTheNext(graph, at))
	}
	now.Until, now.Last = at.Add(out), at
	now.Times++
	p.add(graph, now)
}

// untilTheNext estimates the time until a graph's next place has also been refused and the pause after that refusal has ended. With a
// shorter exclusion, the graph would alternate between places, and never report that it is refused everywhere.
func (p *refusedPlaces) untilTheNext(graph types.NamespacedName, now time.Time) time.Duration {
	times := p.requeues(graph, now)
	return 2*p.requeueAfter + doubled(firstBackoff, lastBackoff, times) + doubled(firstBackoff, lastBackoff, times+1)
}

// note changes the messages of waiting replicas for which only refused places have capacity. The new message reports that a scheduler
// refused the replica everywhere, and names the places. trial is the result, by replica, of a plan that ignores the refused places. If this
// plan also has no capacity for a replica, the new message is the refusal of this plan.
func (p *refusedPlaces) note(r *gang.Request, trial map[gang.Key]placement.ReplicaResult, waiting []gang.Waiting, d *decision) {
	now := p.clock.Now()
	for i := range waiting {
		w := &waiting[i]
		key := gang.Key{Component: w.Component, Ordinal: w.Ordinal}
		again, asked := trial[key]
		switch {
		case w.Refusal == nil || !asked:
		case again.Refusal != nil:
			w.Code, w.Message, w.Refusal = again.Refusal.Code, again.Refusal.Message(), again.Refusal
		default:
			said := cmp.Or(p.places.said(d.graph, r.ShapesOf(key), now), p.places.said(d.graph, nil, now))
			w.Code, w.Refusal = gang.CodeRefusedEverywhere, nil
			w.Message = limit.Text("it has capacity only where a scheduler refused it"+said, limit.Condition)
		}
	}
	if next := p.places.nextEnd(d.graph, now); len(waiting) > 0 && !next.IsZero() {
		d.lookAt(next)
	}
}

// capacityFor reports whether trial, a plan without exclusions, has capacity for a replica that the actual plan refuses.
func capacityFor(trial map[gang.Key]placement.ReplicaResult) bool {
	for _, one := range trial {
		if one.Refusal == nil {
			return true
		}
	}
	return false
}
