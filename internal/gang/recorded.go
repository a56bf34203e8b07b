// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// RecordedPod is a pod of an assigned gang that has its planned host by the record, and is not released yet, or does not exist.
type RecordedPod struct {
	Group *trellisv1alpha1.ScalingGroup
	Name  types.NamespacedName
	// UID of a pod that waits; "" for one that does not exist.
	UID types.UID
	// Domain of its replica, and its Host there.
	Domain topology.Path
	Host   string
	Shape  *topology.Shape
}

// RecordedPods are the pods whose places are recorded and that are to be released or created. Replicas that no group wants any more have
// none.
func RecordedPods(o Observation) (out []RecordedPod) {
	if o.Record == nil {
		return nil
	}
	wanted, byName := WantsReplica(o), map[types.NamespacedName]*corev1.Pod{}
	for _, pod := range o.Pods {
		byName[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
	}
	for _, g := range o.Record.Gangs {
		if g.Phase != trellisv1alpha1.GangAssigned {
			continue
		}
		for key, place := range g.Places {
			at := slices.IndexFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return sg.Spec.Service == key.Component })
			if at < 0 || !render.Gated(o.Groups[at]) || !wanted(key) {
				continue
			}
			for index, host := range place.Hosts {
				one, waits := recordedPod(o, o.Groups[at], key, int32(index), byName)
				if one.Domain, one.Host = place.Domain, host; waits && host != "" {
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// recordedPod describes one pod of a replica; false for one that is released, or ends.
func recordedPod(o Observation, sg *trellisv1alpha1.ScalingGroup, key Key, index int32, byName map[types.NamespacedName]*corev1.Pod) (
	RecordedPod, bool) {
	one := RecordedPod{
		Group: sg, Name: types.NamespacedName{Namespace: sg.Namespace, Name: render.PodName(sg, int32(key.Ordinal), index)},
	}
	pod := byName[one.Name]
	if pod == nil {
		template := render.BuildPod(sg, int32(key.Ordinal), index)
		if template == nil { // the replica has fewer pods by now
			return one, false
		}
		stored, _ := o.Admission.Admit(template)
		one.Shape = topology.ShapeOf(stored)
		return one, true
	}
	one.UID, one.Shape = pod.UID, topology.ShapeOf(pod)
	return one, render.GateClosed(pod) && !Leaving(pod) && render.Member(pod, sg)
}
