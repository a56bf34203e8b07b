// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// role is a role of a scaling group, in the form of a podset for Kueue.
type role struct {
	// name of the podset: the role's name and a hash of its request. Pods with another request have another podset.
	name     string
	count    int32
	template corev1.PodTemplateSpec
}

// rolesOf returns the roles of one replica of a scaling group, for pods as they are created now.
func rolesOf(sg *trellisv1alpha1.ScalingGroup) []role {
	roles := make([]role, 0, len(sg.Spec.Roles))
	first := int32(0)
	for i := range sg.Spec.Roles {
		r := &sg.Spec.Roles[i]
		if r.Count == 0 {
			continue
		}
		template := asked(&render.BuildPod(sg, 0, first).Spec)
		first += r.Count
		name := strings.TrimPrefix(sg.Name, sg.Spec.Graph+"-") + "-" + r.Name
		roles = append(roles, role{name: hashed(name, template), count: r.Count, template: template})
	}
	return roles
}

// asked returns the parts of a pod spec that determine the pod's quota: its requests, and the flavors that it may use. The result omits
// Trellis' gate and pins.
func asked(spec *corev1.PodSpec) corev1.PodTemplateSpec {
	containers := func(all []corev1.Container) []corev1.Container {
		var out []corev1.Container
		for i := range all {
			c := &all[i]
			out = append(out, corev1.Container{Name: c.Name, Image: c.Image, Resources: *c.Resources.DeepCopy(), RestartPolicy: c.RestartPolicy})
		}
		return out
	}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: containers(spec.Containers), InitContainers: containers(spec.InitContainers), Resources: spec.Resources.DeepCopy(),
		RestartPolicy: spec.RestartPolicy, NodeSelector: maps.Clone(spec.NodeSelector), Affinity: spec.Affinity.DeepCopy(),
		Tolerations: slices.Clone(spec.Tolerations), Overhead: spec.Overhead.DeepCopy(), RuntimeClassName: spec.RuntimeClassName,
		PriorityClassName: spec.PriorityClassName, ResourceClaims: slices.Clone(spec.ResourceClaims),
	}}
}

// Base is the Workload for the first minAvailable replicas of all components of a deployment, as Trellis would create it now.
type Base struct {
	Name    string
	PodSets []PodSet
}

// BaseOf returns the base of a deployment with these scaling groups.
func BaseOf(groups []*trellisv1alpha1.ScalingGroup) Base { return baseOf(groups, rolesOf, inBase) }

// baseOf returns the base of these scaling groups. share returns the number of a group's replicas in the base.
func baseOf(groups []*trellisv1alpha1.ScalingGroup, roles func(*trellisv1alpha1.ScalingGroup) []role,
	share func(*trellisv1alpha1.ScalingGroup) int32) Base {
	b := Base{Name: baseName(groups)}
	for _, sg := range groups {
		replicas := share(sg)
		if replicas == 0 {
			continue
		}
		for _, r := range roles(sg) {
			b.PodSets = append(b.PodSets, PodSet{Name: r.name, Count: r.count * replicas, Template: r.template})
		}
	}
	sortPodSets(b.PodSets)
	return b
}

// rolesInBase returns the maximum number of podsets of the base.
func rolesInBase(groups []*trellisv1alpha1.ScalingGroup) (n int) {
	for _, sg := range groups {
		for i := range sg.Spec.Roles {
			if inBase(sg) > 0 && sg.Spec.Roles[i].Count > 0 {
				n++
			}
		}
	}
	return n
}

func podsOf(sets []PodSet) (n int32) {
	for i := range sets {
		n += sets[i].Count
	}
	return n
}

// inBase returns the maximum number of a scaling group's replicas in the base.
func inBase(sg *trellisv1alpha1.ScalingGroup) int32 {
	return min(render.MinAvailable(sg), sg.Spec.Replicas)
}

func ownPodSets(roles []role) []PodSet {
	sets := make([]PodSet, 0, len(roles))
	for _, r := range roles {
		sets = append(sets, PodSet{Name: r.name, Count: r.count, Template: r.template})
	}
	sortPodSets(sets)
	return sets
}

// sortPodSets sorts podsets by name, because Kueue compares them in this order with the roles of pods.
func sortPodSets(sets []PodSet) {
	slices.SortFunc(sets, func(a, b PodSet) int { return strings.Compare(a.Name, b.Name) })
}

// podSetsFor returns the podsets for the Workload that the given pods name. It returns none if a pod differs from the pods that its scaling
// group creates now, because such a pod has to be replaced.
func (o *Observation) podSetsFor(a asks, name string, pods []*corev1.Pod) []PodSet {
	var sets []PodSet
	if name == a.base.Name {
		if gang.MissingGroups(o.DGD, o.Groups) {
			return nil // the podsets of the base are immutable, and would lack those of the missing groups
		}
		sets = a.base.PodSets
	} else {
		sets = o.ownPodSetsFor(a, name, pods[0])
	}
	for _, pod := range pods {
		if !slices.ContainsFunc(sets, func(s PodSet) bool { return s.Name == pod.Annotations[annotationRole] }) {
			return nil
		}
	}
	return sets
}

func (o *Observation) ownPodSetsFor(a asks, name string, pod *corev1.Pod) []PodSet {
	at := slices.IndexFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return render.Member(pod, sg) })
	ordinal, _, ok := render.ReplicaOf(pod)
	if at < 0 || !ok {
		return nil
	}
	roles := a.roles[o.Groups[at]]
	if ownName(o.Groups[at], ordinal, roles) != name {
		return nil
	}
	return ownPodSets(roles)
}
