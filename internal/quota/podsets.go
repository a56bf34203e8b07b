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

// role is one role of a scaling group as Kueue sees it.
type role struct {
	// name of the podset: the role, and a hash of what it asks for. Pods that ask for something else are of another role.
	name     string
	count    int32
	template corev1.PodTemplateSpec
}

// rolesOf are the roles of one replica of a group, as its pods are made now.
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

// asked is what of a pod decides about its quota: what it requests, and which flavors it may have. Trellis' own gate and pins are no part
// of it.
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

// Base is what the Workload of the first minAvailable replicas of all components of a deployment would be now.
type Base struct {
	Name    string
	PodSets []PodSet
}

// BaseOf puts the base together from all scaling groups of a deployment.
func BaseOf(groups []*trellisv1alpha1.ScalingGroup) Base { return baseOf(groups, rolesOf, inBase) }

// baseOf is a base with the share of each group in replicas.
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

// rolesInBase is how many podsets the base has at most.
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

// inBase is how many replicas of a group belong to the base.
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

// sortPodSets: Kueue compares them with the roles of pods by name.
func sortPodSets(sets []PodSet) {
	slices.SortFunc(sets, func(a, b PodSet) int { return strings.Compare(a.Name, b.Name) })
}

// podSetsFor are the podsets of a Workload that pods name; none while the pods are not as their groups make them now: then others take
// their place.
func (o *Observation) podSetsFor(a asks, name string, pods []*corev1.Pod) []PodSet {
	var sets []PodSet
	if name == a.base.Name {
		if gang.MissingGroups(o.DGD, o.Groups) {
			return nil // the base cannot be changed later, and would have no space for them
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
