// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/render"
)

// neverStale is the staleness period that keeps a graph's remaining replicas running when one replica is lost.
const neverStale = "-1s"

// Input is one deployment to render for KAI.
type Input struct {
	Namespace, Name string
	// Queue that is charged for the deployment.
	Queue string
	// Topology is the name of KAI's Topology for the graph's ClusterTopology; "" without a constraint.
	Topology string
	// Groups are the scaling groups of the deployment, one per component.
	Groups []*trellisv1alpha1.ScalingGroup
	// Released reports whether a replica was released. If it is nil, all replicas were released.
	Released func(sg *trellisv1alpha1.ScalingGroup, ordinal int32) bool
	// Ordinals is an exclusive upper bound of the ordinals for which Released is called; 0 for no bound.
	Ordinals int32
}

// RenderPodGroup returns the PodGroup for the deployment's gangs; nil if no replica was released. The PodGroup omits components without a
// released replica. The caller sets owner references.
func RenderPodGroup(g Input) *PodGroup {
	t := constraint.TopologyOf(g.Groups)
	pg := &PodGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: PodGroupKind.GroupVersion().String(), Kind: PodGroupKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: g.Namespace, Name: g.Name,
			Labels:      map[string]string{LabelQueue: render.LabelValue(g.Queue)},
			Annotations: map[string]string{annotationWrittenQueue: g.Queue},
		},
		Spec: PodGroupSpec{
			Queue: g.Queue, StalenessGracePeriod: neverStale, PriorityClassName: render.PriorityClass(g.Groups),
			TopologyConstraint: g.constraint(t, constraint.OfGraph(t)),
		},
	}
	var components int32
	for _, sg := range render.SortedGroups(g.Groups) {
		if replicas := g.released(sg); len(replicas) > 0 && constraint.Packed(sg) {
			components++
			pg.Spec.SubGroups = append(pg.Spec.SubGroups, g.subGroups(sg, replicas)...)
		}
	}
	if components == 0 {
		return nil
	}
	pg.Spec.MinSubGroup = ptr.To[int32](1)
	if constraint.BaseGang(g.Groups) {
		pg.Spec.MinSubGroup = ptr.To(components)
	}
	return pg
}

func (g Input) released(sg *trellisv1alpha1.ScalingGroup) []int32 {
	var out []int32
	replicas := sg.Spec.Replicas
	if g.Ordinals > 0 {
		replicas = min(replicas, g.Ordinals)
	}
	for ordinal := range replicas {
		if g.Released == nil || g.Released(sg, ordinal) {
			out = append(out, ordinal)
		}
	}
	return out
}

// subGroups returns the subgroups of one component: one leaf with all its pods for a single-node component, or a parent with one leaf per
// replica for a multinode component.
func (g Input) subGroups(sg *trellisv1alpha1.ScalingGroup, replicas []int32) []SubGroup {
	unit := g.constraint(sg.Spec.Topology, constraint.OfComponent(sg.Spec.Topology))
	least := min(render.MinAvailable(sg), int32(len(replicas))) // a lost replica neither waits nor is waited for
	if !sg.Spec.Multinode {
		return []SubGroup{{Name: serviceName(sg.Name), MinMember: ptr.To(least), TopologyConstraint: unit}}
	}
	out := []SubGroup{{Name: serviceName(sg.Name), MinSubGroup: ptr.To(least)}}
	for _, ordinal := range replicas {
		out = append(out, SubGroup{
			Name: replicaName(sg.Name, ordinal), Parent: serviceName(sg.Name),
			MinMember: ptr.To(render.PodsPerReplica(sg)), TopologyConstraint: unit,
		})
	}
	return out
}

// constraint returns the constraint in KAI's form. A PodGroup can refer to only one Topology. A component with another topology therefore
// has no constraint in KAI, only the pins of its pods.
func (g Input) constraint(t *trellisv1alpha1.ResolvedTopology, c constraint.Domains) *TopologyConstraint {
	if c.Empty() || t.ClusterTopology != constraint.TopologyOf(g.Groups).ClusterTopology {
		return nil
	}
	return &TopologyConstraint{
		Topology:               g.Topology,
		RequiredTopologyLevel:  constraint.Key(t, c.Required),
		PreferredTopologyLevel: constraint.Key(t, c.Preferred),
	}
}

// The name of a component's subgroup ends in a word, and the name of a replica's subgroup ends in a number, so component "x-1" and replica
// 1 of component "x" have different names.
func serviceName(group string) string { return group + "-all" }

func replicaName(group string, ordinal int32) string {
	return group + "-" + strconv.Itoa(int(ordinal))
}

// Keep copies the queue from have, the existing PodGroup, to want if another client chose this queue, that is, if it differs from the queue
// that Trellis wrote last. If Trellis' own choice has changed since then, the new choice applies instead. The Go type omits all other
// fields that clients set, so writing the PodGroup keeps these fields.
func Keep(want, have *PodGroup) {
	written := have.Annotations[annotationWrittenQueue]
	if have.Spec.Queue == "" || have.Spec.Queue == written || written != want.Annotations[annotationWrittenQueue] {
		return
	}
	want.Spec.Queue = have.Spec.Queue
	want.Labels[LabelQueue] = render.LabelValue(have.Spec.Queue)
}

// Prepare makes KAI the scheduler of a gang's pod, but does not add the pod to a PodGroup yet. KAI would count a gated member and report it
// as unschedulable, which hides the gate. g.Queue may be empty, because the PodGroup's queue applies.
func (g Input) Prepare(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) {
	if !constraint.Packed(sg) {
		return
	}
	pod.Spec.SchedulerName = SchedulerName
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AnnotationSkipGrouper, "true")
	if g.Queue != "" {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, LabelQueue, render.LabelValue(g.Queue))
	}
}

// Prepared reports whether a pod of a gang has the fields that Prepare sets.
func Prepared(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == SchedulerName && pod.Annotations[AnnotationSkipGrouper] == "true"
}

// Membership returns the labels and annotations that make a prepared pod a member of the deployment's PodGroup when it is released.
func Membership(deployment string, pod *corev1.Pod) (labels, annotations map[string]string) {
	return map[string]string{LabelSubGroup: leafOf(pod)}, map[string]string{AnnotationPodGroup: deployment}
}

// leafOf returns the name of a pod's leaf: the leaf of the replica if multinode, otherwise the leaf of the component.
func leafOf(pod *corev1.Pod) string {
	group := pod.Labels[render.LabelScalingGroup]
	if ordinal, _, ok := render.ReplicaOf(pod); ok && pod.Labels[render.LabelRole] != render.RoleMain {
		return replicaName(group, ordinal)
	}
	return serviceName(group)
}

// Problems lists the reasons why KAI cannot place the graph, regardless of capacity.
func (g Input) Problems() []string {
	var out []string
	for _, sg := range render.SortedGroups(g.Groups) {
		for i := range sg.Spec.Roles {
			if name := sg.Spec.Roles[i].Template.Spec.SchedulerName; name != "" && name != SchedulerName {
				out = append(out, fmt.Sprintf("component %q names schedulerName %q; remove it, or choose another provider than KAI", sg.Spec.Component,
					name))
				break
			}
		}
	}
	return out
}
