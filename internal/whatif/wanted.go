// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// wanted returns the missing pods of a group that the operator would create now. They have only the scheduling gate of Trellis, because the
// plan assumes that other controllers have removed their gates. For a replica with released or terminating pods, wanted returns no pods,
// because the operator first deletes such a replica.
func (p *Planner) wanted(sg *trellisv1alpha1.ScalingGroup, existing []*corev1.Pod, record *assignment.Record) []*corev1.Pod {
	if !render.Gated(sg) || render.Oversized(sg) {
		return nil
	}
	made, barred := map[string]bool{}, map[int]bool{}
	for _, pod := range existing {
		ordinal, _, ok := render.ReplicaOf(pod)
		made[pod.Name] = true
		barred[int(ordinal)] = barred[int(ordinal)] || ok && (gang.Leaving(pod) || !render.GateClosed(pod))
	}
	var out []*corev1.Pod
	build := render.NewBuilder(sg)
	for _, ordinal := range gang.Ordinals(sg, existing, record.Replicas(sg.Spec.Component)) {
		for index := range render.PodsPerReplica(sg) {
			if barred[ordinal] || made[render.PodName(sg, int32(ordinal), index)] {
				continue
			}
			pod := build.Pod(int32(ordinal), index)
			own(pod, sg)
			out = append(out, p.admitted(withoutForeignGates(pod)))
		}
	}
	return out
}

// withoutForeignGates removes the scheduling gates of other controllers from a pod.
func withoutForeignGates(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SchedulingGates = slices.DeleteFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name != render.PlacementGate
	})
	return pod
}

// ranked returns an existing pod with the priority that admission would set. A pod with a priority stays unchanged.
func (p *Planner) ranked(pod *corev1.Pod) *corev1.Pod {
	if pod.Spec.Priority != nil {
		return pod
	}
	pod = pod.DeepCopy()
	p.admission.Rank(pod)
	return pod
}

// admitted returns a new pod as the API server would store it.
func (p *Planner) admitted(pod *corev1.Pod) *corev1.Pod {
	stored, _ := p.admission.Admit(pod)
	return stored
}

// ofPods returns warnings about a deployment's pods: uncounted or unknown volumes, claims and resources, assumed admission by other
// controllers, and pods that the API server would refuse.
func (p *Planner) ofPods(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	r, err := p.request(dgd)
	if err != nil {
		return nil
	}
	var notes []string
	uncounted, gates := map[string]bool{}, map[string]bool{}
	for _, sg := range r.observation.Groups {
		for i := range sg.Spec.Roles {
			pod := &corev1.Pod{Spec: sg.Spec.Roles[i].Template.Spec}
			pod.Namespace = sg.Namespace
			for _, gate := range render.ForeignGates(pod) {
				gates[gate] = true
			}
			stored, some := p.admission.Admit(pod)
			notes = append(notes, some...)
			for _, name := range p.cluster.Served(topology.ShapeOf(stored)) {
				uncounted[name] = p.claims.Unknown() != ""
			}
			if unknown := p.volumes.Unknown(stored); len(unknown) > 0 {
				notes = append(notes, fmt.Sprintf("its volumes are not all counted (not known: %s): the kube-scheduler decides where they can be used",
					limit.Join(unknown, len(unknown), 5, ", ")))
			}
			if why := p.claims.Uncounted(stored); why != "" {
				notes = append(notes, fmt.Sprintf("its resource claims are not counted (%s): the kube-scheduler decides whether a node has their "+
					"devices", why))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(uncounted)) {
		if !uncounted[name] {
			continue
		}
		notes = append(notes, name+" is not counted on nodes where a DeviceClass serves it: the kube-scheduler decides whether they have the "+
			"devices")
	}
	if queue := dgd.Labels[render.LabelKueueQueue]; queue != "" {
		notes = append(notes, fmt.Sprintf("planned as if it had quota: nothing is placed before Kueue admits it from queue %s", queue))
	}
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		notes = append(notes, fmt.Sprintf("pods that do not exist yet are planned as if admitted; nothing is placed before another controller "+
			"removes their scheduling gate %q", gate))
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}
