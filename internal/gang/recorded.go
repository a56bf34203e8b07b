// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// RecordedPod is a gated or missing pod of an assigned gang, with its recorded host.
type RecordedPod struct {
	Group *trellisv1alpha1.ScalingGroup
	// Replica of the pod.
	Replica Key
	Name    types.NamespacedName
	// UID of a gated pod; "" for a missing pod.
	UID types.UID
	// Domain of the replica, and Host of the pod.
	Domain topology.Path
	Host   string
	Shape  *topology.Shape
}

// RecordedPods returns the gated and missing pods of assigned gangs, except for the pods of replicas that their group no longer wants.
func RecordedPods(o Observation) (out []RecordedPod) {
	if o.Record == nil {
		return nil
	}
	wanted, byName := WantsReplica(o), map[types.NamespacedName]*corev1.Pod{}
	for _, pod := range o.Pods {
		byName[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
	}
	for _, g := range o.Record.Gangs {
		if g.State != trellisv1alpha1.GangAssigned {
			continue
		}
		for key, place := range g.Places {
			sg := componentGroup(o.Groups, key.Component)
			if sg == nil || !wanted(key) {
				continue
			}
			for index, host := range place.Hosts {
				one, waits := recordedPod(&o, sg, key, int32(index), byName)
				if one.Domain, one.Host = place.Domain, host; waits && host != "" {
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// recordedPod describes one pod of a replica; false for a pod that is released or leaving.
func recordedPod(o *Observation, sg *trellisv1alpha1.ScalingGroup, key Key, index int32, byName map[types.NamespacedName]*corev1.Pod) (
	RecordedPod, bool) {
	one := RecordedPod{
		Group: sg, Replica: key, Name: types.NamespacedName{Namespace: sg.Namespace, Name: render.PodName(sg, int32(key.Ordinal), index)},
	}
	pod := byName[one.Name]
	if pod == nil {
		if pod = plannedPod(o, sg, int32(key.Ordinal), index); pod == nil { // the replica now has fewer pods
			return one, false
		}
		one.Shape = topology.ShapeOf(pod)
		return one, true
	}
	one.UID, one.Shape = pod.UID, topology.ShapeOf(pod)
	return one, render.GateClosed(pod) && !Leaving(pod) && render.Member(pod, sg)
}

// RecordedReleases returns, for each assigned gang with gated or planned pods, the releases of these pods to their recorded hosts. The base
// gang comes first, then the other gangs by component and ordinal. RecordedReleases omits a gang if one of its pods is missing, is leaving,
// is outdated, has a gate of another controller, or was released with another gang. It also omits a gang with planned pods of a spent
// attempt (see [Observation].Spent). If it would omit the base gang, it returns nothing.
func RecordedReleases(o Observation) (out [][]Release) {
	if o.Record == nil {
		return nil
	}
	byReplica := map[Key][]*corev1.Pod{}
	byGroup := podsByGroup(o.Pods)
	for _, sg := range o.Groups {
		for ordinal, pods := range podsByOrdinal(byGroup[string(sg.UID)]) {
			byReplica[Key{Component: sg.Spec.Component, Ordinal: ordinal}] = pods
		}
	}
	for name, g := range o.Record.Gangs {
		if g.State != trellisv1alpha1.GangAssigned {
			continue
		}
		releases, whole := recordedGang(&o, name, g, byReplica)
		switch {
		case !whole && g.Base:
			return nil
		case whole && len(releases) > 0:
			out = append(out, releases)
		}
	}
	slices.SortFunc(out, func(a, b []Release) int {
		return cmp.Or(bools.Compare(b[0].Base, a[0].Base), cmp.Compare(a[0].Group.Spec.Component, b[0].Group.Spec.Component),
			cmp.Compare(ordinalOf(a[0].Pod), ordinalOf(b[0].Pod)))
	})
	return out
}

// recordedGang returns the releases of one gang, sorted by pod name; false for a gang that cannot be released as recorded.
func recordedGang(o *Observation, name string, g assignment.Gang, byReplica map[Key][]*corev1.Pod) (releases []Release, whole bool) {
	whole = true
	for key, place := range g.Places {
		of, all := recordedReleases(o, name, componentGroup(o.Groups, key.Component), byReplica[key], place)
		all = all && (len(of) == 0 || !Planned(of[0].Pod) || o.Spent[key] < place.Attempt)
		releases, whole = append(releases, of...), whole && all
	}
	for i := range releases {
		releases[i].Base = g.Base
	}
	slices.SortFunc(releases, func(a, b Release) int { return cmp.Compare(a.Pod.Name, b.Pod.Name) })
	return releases, whole
}

func ordinalOf(pod *corev1.Pod) int32 {
	ordinal, _, _ := render.ReplicaOf(pod)
	return ordinal
}

func componentGroup(groups []*trellisv1alpha1.ScalingGroup, component string) *trellisv1alpha1.ScalingGroup {
	at := slices.IndexFunc(groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return sg.Spec.Component == component })
	if at < 0 || !render.Gated(groups[at]) {
		return nil
	}
	return groups[at]
}

// recordedReleases returns the releases of one replica in a gang; false for a replica that cannot be released as recorded.
func recordedReleases(o *Observation, gang string, sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, place assignment.Place) (
	out []Release, whole bool,
) {
	if sg == nil || len(pods) == 0 || len(pods) != render.ReplicaSize(sg, pods[0]) {
		return nil, false
	}
	for _, pod := range pods {
		_, onItsWay := o.Releasing[topology.PodID(pod)]
		_, index, _ := render.ReplicaOf(pod)
		pin, hasHost := RecordedPin(sg, gang, place, index)
		switch {
		case Leaving(pod):
			return nil, false
		case onItsWay:
		case !render.GateClosed(pod):
			if of := pod.Annotations[render.AnnotationGang]; of != "" && of != gang {
				return nil, false
			}
		case len(render.ForeignGates(pod)) > 0 || render.Outdated(sg, pod) || !hasHost:
			return nil, false
		default:
			out = append(out, Release{Pod: pod, Group: sg, Domain: place.Domain, Pin: pin})
		}
	}
	return out, true
}

// RecordedPin returns the pin of a pod of a recorded replica; false for a pod without a recorded host.
func RecordedPin(sg *trellisv1alpha1.ScalingGroup, gang string, place assignment.Place, index int32) (Pin, bool) {
	if int(index) >= len(place.Hosts) || place.Hosts[index] == "" {
		return Pin{}, false
	}
	return Pin{
		Gang: gang, Attempt: place.Attempt, Graph: sg.Spec.Graph, Labels: placeOf(sg).Labels(place.Domain), Node: place.Hosts[index],
		Apart: render.DistinctHosts(sg),
	}, true
}
