// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// baseRest is a partly released base gang: some of its replicas have no released pods.
type baseRest struct {
	gang string
	// since is the time at which the gang was assigned.
	since time.Time
	// open are the gang's released pods.
	open []*corev1.Pod
}

// findRests finds the replicas of the recorded base gang that have no released pods, if other replicas of the gang have released pods.
func (r *Request) findRests(o *Observation, states map[string][]replicaState) {
	name := BaseGang(*o)
	if name == "" || r.Graph.Anchor == nil {
		return
	}
	g := o.Record.Gangs[name]
	if g.State != trellisv1alpha1.GangAssigned {
		return
	}
	rest := baseRest{gang: name, since: g.Since}
	var missing []Key
	for component, of := range states {
		for _, state := range of {
			key := Key{Component: component, Ordinal: state.ordinal}
			if _, member := g.Places[key]; !member {
				continue
			}
			if len(state.open) == 0 {
				missing = append(missing, key)
			}
			rest.open = append(rest.open, slices.DeleteFunc(slices.Clone(state.open), func(pod *corev1.Pod) bool {
				return cmp.Or(pod.Annotations[render.AnnotationGang], name) != name
			})...)
		}
	}
	if len(rest.open) == 0 {
		return
	}
	for _, key := range missing {
		r.rests[key] = rest
	}
}

// Overdue returns the released pods of an incomplete base gang that was assigned at the given time or earlier. It maps pod IDs to messages.
// A base gang is incomplete if some of its replicas lack pods or wait for other controllers. since is the time at which the incomplete base
// gang was assigned, even if the gang was assigned after the given time; zero if there is no such gang.
func (r *Request) Overdue(before time.Time) (pods map[string]string, since time.Time) {
	pods = map[string]string{}
	for key, rest := range r.rests {
		if !r.incomplete[key] && r.admission.awaiting[key] == "" {
			continue
		}
		if since = rest.since; since.After(before) {
			continue
		}
		for _, pod := range annotated(rest.open) {
			pods[topology.PodID(pod)] = fmt.Sprintf("%s-%d of its base gang is not complete: %s", key.Component, key.Ordinal,
				cmp.Or(r.admission.awaiting[key], "pods of it do not exist"))
		}
	}
	return pods, since
}

// BaseGang returns the name of a graph's recorded base gang; "" if there is none, or if the gang is bound.
func BaseGang(o Observation) string {
	if o.Record == nil {
		return ""
	}
	return o.Record.BaseGang()
}

// RunsWithout reports whether a graph can run without the gangs for which isOf returns true. It can if each component that Trellis places
// has enough bound replicas in other gangs. Enough is MinAvailable, but at least one replica, and at most all replicas of the component.
func RunsWithout(o Observation, isOf func(gang string) bool) bool {
	byGroup := podsByGroup(o.Pods)
	return !slices.ContainsFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool {
		if !render.Gated(sg) {
			return false
		}
		bound := 0
		for _, pods := range podsByOrdinal(byGroup[string(sg.UID)]) {
			if len(pods) == render.ReplicaSize(sg, pods[0]) && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
				return Leaving(pod) || pod.Spec.NodeName == "" || isOf(pod.Annotations[render.AnnotationGang])
			}) {
				bound++
			}
		}
		return bound < min(max(int(render.MinAvailable(sg)), 1), int(sg.Spec.Replicas))
	})
}
