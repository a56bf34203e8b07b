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

// learnFrom notes, of the gangs that are evicted now, where a scheduler refused pods of them, and adds to the reason which places are
// left out. A place is refused once, however many pods wait for it. Nothing is learnt of a gang whose scheduler has not tried again since
// the pods that had to leave are gone: after a preemption the kube-scheduler 1.37 tries a pod group again only if the first placement that
// it tried lacked resources. The gang's capacity is held, so that it gets the same place.
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

// without are the hosts that others of the gang are not bound to: these refuse a pod for what its own gang takes. When there is no other
// host, it is all.
func without(hosts, bound []string) []string {
	left := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool { return slices.Contains(bound, host) })
	if len(left) == 0 {
		return hosts
	}
	return left
}

// learning is what is learnt of the gangs of a graph in one look.
type learning struct {
	graph types.NamespacedName
	// places are those that are noted, by shape and name, names those of them that are new, in order.
	places map[string]bool
	names  []string
}

// first reports whether a place is not noted yet, and notes it.
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

// forget leaves a place out of those that are named: the domain around it is.
func (n *learning) forget(name string) {
	n.names = slices.DeleteFunc(n.names, func(one string) bool { return one == name })
}

// refusalOf is why a scheduler refuses a released pod in its place; "" for no refusal, or what would be the same at any other
// place.
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

// objectionTo is what the provider's scheduler holds against a pod; "" for nothing.
func objectionTo(o gang.Observation, pod *corev1.Pod) string {
	if objection, objected := o.Objections[pod.UID]; objected {
		return cmp.Or(objection.Message, "no reason given")
	}
	return ""
}

// learn notes where a pod was refused: in the hosts that it names, or in the domain that it is pinned to.
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

// domainOf is the narrowest domain that a host is in, above the host itself.
func (p *refusedPlaces) domainOf(levels topology.Levels, host string) topology.Path {
	path := levels.PathOf(p.cluster.NodeLabels(host))
	if at := levels.IndexOfKey(corev1.LabelHostname); at != topology.NoLevel {
		path = path.Truncate(at - 1)
	}
	return path
}

// refusesMost reports whether so many hosts of a domain are refused, or so often, that the others are likely to be refused too.
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

// refused notes one refusal, and leaves the place out for twice as long as the last time.
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

// untilTheNext is about how long it takes until the next place of a graph is refused, too, and its pause after that is over: a place that
// is used again before would have the graph go back and forth, and never say that it is refused everywhere.
func (p *refusedPlaces) untilTheNext(graph types.NamespacedName, now time.Time) time.Duration {
	times := p.requeues(graph, now)
	return 2*p.requeueAfter + doubled(firstBackoff, lastBackoff, times) + doubled(firstBackoff, lastBackoff, times+1)
}

// note has replicas say that a scheduler refused them wherever they have capacity, place by place. trial is what a plan without
// refusals answers to them: where that has no capacity either, its numbers are those that count.
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

// capacityFor reports whether a plan without refusals places a replica that is refused with them.
func capacityFor(trial map[gang.Key]placement.ReplicaResult) bool {
	for _, one := range trial {
		if one.Refusal == nil {
			return true
		}
	}
	return false
}
