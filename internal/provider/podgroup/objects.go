// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

const (
	// AnnotationGraph holds the full name of the deployment; the corresponding label may hold a shortened name.
	AnnotationGraph = "trellis.dev/graph"
	// annotationGroups on a PodGroup holds the number of PodGroups in its tree.
	annotationGroups = "trellis.dev/groups-of-gang"
	// baseTemplate is the name of the tree's template in the Workload.
	baseTemplate = "base-gang"
	// otherTemplate is the name of the Workload's template for all shapes beyond the maximum number of templates.
	otherTemplate = "other"
)

// Workload describes the shapes of a deployment's gangs for users and tools. A shape is the number of pods of a replica, and the level that
// packs these pods. The scheduler does not read Workloads. A Workload is immutable, so its name contains a hash of its content.
func Workload(dgd *nvidiav1beta1.DynamoGraphDeployment, groups []*trellisv1alpha1.ScalingGroup) *schedulingv1beta1.Workload {
	w := &schedulingv1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: dgd.Namespace, Labels: map[string]string{render.LabelGraph: render.LabelValue(dgd.Name)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))},
		},
		Spec: schedulingv1beta1.WorkloadSpec{ControllerRef: &schedulingv1beta1.TypedLocalObjectReference{
			APIGroup: nvidiav1beta1.GroupVersion.Group, Kind: "DynamoGraphDeployment", Name: dgd.Name,
		}},
	}
	templates := podGroupTemplates(groups)
	if key := graphKey(groups); key == "" {
		w.Spec.PodGroupTemplates = templates
	} else {
		w.Spec.CompositePodGroupTemplates = []schedulingv1beta1.CompositePodGroupTemplate{{
			Name: baseTemplate,
			SchedulingPolicy: schedulingv1beta1.CompositePodGroupSchedulingPolicy{Gang: &schedulingv1beta1.CompositeGangSchedulingPolicy{
				MinGroupCount: baseGroups(groups)}},
			SchedulingConstraints: &schedulingv1beta1.CompositePodGroupSchedulingConstraints{
				Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}},
			},
			PodGroupTemplates: templates,
		}}
	}
	raw, err := json.Marshal(w.Spec)
	if err != nil {
		panic("a Workload does not marshal: " + err.Error()) // plain data; cannot happen
	}
	sum := sha256.Sum256(raw)
	w.Name = render.LabelValue(dgd.Name) + "-" + hex.EncodeToString(sum[:5])
	return w
}

// baseGroups returns the number of replicas in the base gang. It includes components that have no replicas now, because a Workload does not
// change with the number of replicas.
func baseGroups(groups []*trellisv1alpha1.ScalingGroup) int32 {
	var n int32
	for _, sg := range groups {
		n += render.MinAvailable(sg)
	}
	return n
}

// podGroupTemplates returns one template for each distinct shape of a gang, the largest first. If there are more shapes than a Workload may
// have templates, the last template stands for all remaining shapes.
func podGroupTemplates(groups []*trellisv1alpha1.ScalingGroup) []schedulingv1beta1.PodGroupTemplate {
	var out []schedulingv1beta1.PodGroupTemplate
	for _, sg := range bySize(groups) {
		name := shapeName(sg)
		if slices.ContainsFunc(out, func(t schedulingv1beta1.PodGroupTemplate) bool { return t.Name == name }) {
			continue
		}
		t := schedulingv1beta1.PodGroupTemplate{Name: name, SchedulingPolicy: gangOf(render.PodsPerReplica(sg)),
			SchedulingConstraints: constraint(packKey(sg))}
		if len(out) == schedulingv1beta1.WorkloadMaxPodGroupTemplates-1 {
			t = schedulingv1beta1.PodGroupTemplate{Name: otherTemplate, SchedulingPolicy: gangOf(1)}
			return append(out, t)
		}
		out = append(out, t)
	}
	return out
}

func bySize(groups []*trellisv1alpha1.ScalingGroup) []*trellisv1alpha1.ScalingGroup {
	sorted := slices.Clone(groups)
	slices.SortFunc(sorted, func(a, b *trellisv1alpha1.ScalingGroup) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

func shapeName(sg *trellisv1alpha1.ScalingGroup) string {
	name := fmt.Sprintf("gang-of-%d", render.PodsPerReplica(sg))
	if t := sg.Spec.Topology; t != nil && t.PackDomain != "" {
		name += "-in-one-" + t.PackDomain
	}
	if len(name) > 63 {
		sum := sha256.Sum256([]byte(name))
		name = name[:52] + "-" + hex.EncodeToString(sum[:5])
	}
	return name
}

// templateName returns the name of the template in the Workload for the shape of a scaling group.
func templateName(w *schedulingv1beta1.Workload, sg *trellisv1alpha1.ScalingGroup) string {
	templates := w.Spec.PodGroupTemplates
	for i := range w.Spec.CompositePodGroupTemplates {
		templates = w.Spec.CompositePodGroupTemplates[i].PodGroupTemplates
	}
	name := shapeName(sg)
	if slices.ContainsFunc(templates, func(t schedulingv1beta1.PodGroupTemplate) bool { return t.Name == name }) {
		return name
	}
	return otherTemplate
}

// Tree returns the root of a base gang's tree. The PodGroups in the tree own the root.
func Tree(of gang.Members, w *schedulingv1beta1.Workload, members []*schedulingv1beta1.PodGroup) *schedulingv1alpha3.CompositePodGroup {
	root := &schedulingv1alpha3.CompositePodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Graph.Namespace, Name: of.Name,
			Labels: map[string]string{render.LabelGraph: render.LabelValue(of.Graph.Name)}, Annotations: map[string]string{
				AnnotationGraph: of.Graph.Name},
		},
		Spec: schedulingv1alpha3.CompositePodGroupSpec{
			WorkloadRef: &schedulingv1alpha3.WorkloadReference{WorkloadName: w.Name, TemplateName: baseTemplate},
			SchedulingPolicy: schedulingv1alpha3.CompositePodGroupSchedulingPolicy{Gang: &schedulingv1alpha3.CompositeGangSchedulingPolicy{
				MinGroupCount: int32(len(members))}},
			PriorityClassName: priorityClass(of.Replicas[0].Group),
		},
	}
	if key := graphKey(of.Groups); key != "" {
		root.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha3.TopologyConstraint{{Key: key}}}
	}
	for _, member := range members {
		root.OwnerReferences = append(root.OwnerReferences, metav1.OwnerReference{
			APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup", Name: member.Name, UID: member.UID,
		})
	}
	return root
}

// Group returns the PodGroup of one replica. The replica's pods own the PodGroup.
func Group(of gang.Members, replica gang.Member, w *schedulingv1beta1.Workload) *schedulingv1beta1.PodGroup {
	sg := replica.Group
	pods := render.PodsPerReplica(sg)
	out := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Graph.Namespace, Name: GroupOf(replica.Pods[0]),
			Labels: map[string]string{
				render.LabelGraph: render.LabelValue(of.Graph.Name), render.LabelScalingGroup: sg.Name,
				render.LabelReplica: strconv.Itoa(int(replica.Ordinal)),
			},
			Annotations: map[string]string{AnnotationGraph: of.Graph.Name, render.AnnotationGang: of.Name},
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			WorkloadRef:           &schedulingv1beta1.WorkloadReference{WorkloadName: w.Name, TemplateName: templateName(w, sg)},
			SchedulingPolicy:      gangOf(pods),
			SchedulingConstraints: constraint(packKey(sg)),
			PriorityClassName:     priorityClass(sg),
		},
	}
	if pods > 1 { // its pods are disrupted together
		out.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	if of.Base {
		out.Spec.ParentCompositePodGroupName = &of.Name
		out.Annotations[annotationGroups] = strconv.Itoa(len(of.Replicas))
	}
	for _, pod := range replica.Pods {
		out.OwnerReferences = append(out.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
	}
	return out
}

func gangOf(pods int32) schedulingv1beta1.PodGroupSchedulingPolicy {
	return schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: pods}}
}

func constraint(key string) *schedulingv1beta1.PodGroupSchedulingConstraints {
	if key == "" {
		return nil
	}
	return &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
}

// packKey returns the node label key of the level that packs each replica; "" for none.
func packKey(sg *trellisv1alpha1.ScalingGroup) string {
	if t := sg.Spec.Topology; t != nil {
		return keyOf(t, t.PackDomain)
	}
	return ""
}

// graphKey returns the node label key of the level that packs the graph; "" for none.
func graphKey(groups []*trellisv1alpha1.ScalingGroup) string {
	for _, sg := range groups {
		if t := sg.Spec.Topology; t != nil && t.GraphPackDomain != "" {
			return keyOf(t, t.GraphPackDomain)
		}
	}
	return ""
}

func keyOf(t *trellisv1alpha1.ResolvedTopology, domain string) string {
	for _, level := range t.Levels {
		if domain != "" && level.Domain == domain {
			return level.Key
		}
	}
	return ""
}

func priorityClass(sg *trellisv1alpha1.ScalingGroup) string {
	return podSpec(sg).PriorityClassName
}

func podSpec(sg *trellisv1alpha1.ScalingGroup) *corev1.PodSpec {
	if len(sg.Spec.Roles) == 0 {
		return &corev1.PodSpec{}
	}
	return &sg.Spec.Roles[0].Template.Spec
}

// LargestFirst sorts replicas in the order in which their PodGroups have to be created.
func LargestFirst(replicas []gang.Member) {
	slices.SortStableFunc(replicas, func(a, b gang.Member) int { return int(size(b.Group) - size(a.Group)) })
}
