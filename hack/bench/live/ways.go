// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Way is a way to get gangs of whole hosts bound.
type Way struct {
	Name string
	// objects returns the objects for gangs of pods, in batches that are created one after the other.
	objects func(shape hall.Shape, gangs, pods int) [][]client.Object
	// create sends the batches; nil: one after the other, the objects of each in parallel.
	create func(ctx context.Context, c *Cluster, batches [][]client.Object) error
	// gangOf returns a pod's gang; nil: there are no gangs to check.
	gangOf func(*corev1.Pod) string
}

// Ways to compare. Deployments use the operator; groups and bare pods are created directly.
var (
	// Packed are deployments with one replica over several nodes, in one rack.
	Packed = Way{Name: "packed deployments", objects: packed, gangOf: func(p *corev1.Pod) string { return p.Labels[render.LabelGraph] }}
	// Plain are deployments with as many pods in single-pod replicas, without constraint.
	Plain = Way{Name: "plain deployments", objects: plain}
	// InTree is a PodGroup per gang, with a topology constraint.
	InTree = Way{Name: "in-tree PodGroups", objects: inTree, gangOf: func(p *corev1.Pod) string {
		return *p.Spec.SchedulingGroup.PodGroupName
	}}
	// Bare are pods without any pin; the others are pinned to a rack by its label, by the names of its nodes, or by their hostname labels.
	Bare        = Way{Name: "bare pods", objects: bare(func(*corev1.Pod, hall.Shape, int) {})}
	ByLabel     = Way{Name: "pinned by rack label", objects: bare(pinLabel), gangOf: gangLabel}
	ByNodeNames = Way{Name: "pinned by node names", objects: bare(pinNodeNames), gangOf: gangLabel}
	ByHostnames = Way{Name: "pinned by hostname labels", objects: bare(pinHostnames), gangOf: gangLabel}
)

// send creates the batches.
func (w Way) send(ctx context.Context, c *Cluster, batches [][]client.Object) error {
	if w.create != nil {
		return w.create(ctx, c, batches)
	}
	for _, batch := range batches {
		if err := c.create(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// PackedUnder returns packed deployments with the annotation of a provider. name is the name of the way.
func PackedUnder(provider, name string) Way {
	way := Packed
	way.Name = name
	way.objects = func(shape hall.Shape, gangs, pods int) [][]client.Object {
		batches := packed(shape, gangs, pods)
		for _, dgd := range batches[0] {
			dgd.SetAnnotations(map[string]string{render.AnnotationProvider: provider})
		}
		return batches
	}
	return way
}

// deployments returns one deployment per gang, in the storage version, so that nothing is converted.
func deployments(gangs int, component nvidiav1beta1.ComponentSpec) [][]client.Object {
	component.Name, component.Type = "worker", nvidiav1beta1.ComponentTypeWorker
	component.PodTemplate = template(hall.GPUs)
	batch := make([]client.Object, 0, gangs)
	for i := range gangs {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("graph-%03d", i)}}
		dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{*component.DeepCopy()}
		if component.TopologyConstraint != nil {
			dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: topologyName}
		}
		batch = append(batch, dgd)
	}
	return [][]client.Object{batch}
}

// template returns the template of pods with that number of GPUs.
func template(gpus int) *corev1.PodTemplateSpec {
	main := corev1.Container{
		Name: nvidiav1beta1.MainContainerName, Image: "example.com/vllm:1", Command: []string{"/bin/sh", "-c"},
		Args: []string{"python3 -m dynamo.vllm --model m"},
	}
	if gpus > 0 {
		main.Resources.Limits = corev1.ResourceList{hall.GPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{main}}}
}

// multinode returns a component whose replicas are gangs of that number of pods in one domain of a level, [hall.Cluster] for no constraint.
func multinode(replicas, pods int, level hall.Level) nvidiav1beta1.ComponentSpec {
	component := nvidiav1beta1.ComponentSpec{Replicas: ptr.To(int32(replicas)), Multinode: &nvidiav1beta1.MultinodeSpec{
		NodeCount: int32(pods)}}
	if level != hall.Cluster {
		component.TopologyConstraint = &nvidiav1beta1.TopologyConstraint{PackDomain: level.Name()}
	}
	return component
}

func packed(_ hall.Shape, gangs, pods int) [][]client.Object {
	return deployments(gangs, multinode(1, pods, hall.Rack))
}

func plain(_ hall.Shape, gangs, pods int) [][]client.Object {
	return deployments(gangs, nvidiav1beta1.ComponentSpec{Replicas: ptr.To(int32(pods))})
}

// gangLabelKey is the label with a bare pod's gang.
const gangLabelKey = "bench.trellis.dev/gang"

func gangLabel(p *corev1.Pod) string { return p.Labels[gangLabelKey] }

// barePod returns a pod without owner.
func barePod(name, gang string, gpus int) *corev1.Pod {
	p := hall.Pod(name, gpus, "")
	p.Namespace, p.UID, p.Status = namespace, "", corev1.PodStatus{}
	p.Labels = map[string]string{gangLabelKey: gang}
	p.Spec.Containers[0].Resources.Limits = p.Spec.Containers[0].Resources.Requests
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	return p
}

func podGroup(name string, pods int, level hall.Level) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(pods)}
	g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
		Topology: []schedulingv1beta1.TopologyConstraint{{Key: level.Key()}},
	}
	return g
}

func inTree(_ hall.Shape, gangs, pods int) [][]client.Object {
	var groups, members []client.Object
	for i := range gangs {
		name := fmt.Sprintf("gang-%03d", i)
		groups = append(groups, podGroup(name, pods, hall.Rack))
		for k := range pods {
			p := barePod(fmt.Sprintf("%s-%d", name, k), name, hall.GPUs)
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
			members = append(members, p)
		}
	}
	return [][]client.Object{groups, members}
}

// bare returns pods; pin pins a pod to the rack of that number.
func bare(pin func(p *corev1.Pod, shape hall.Shape, rack int)) func(hall.Shape, int, int) [][]client.Object {
	return func(shape hall.Shape, gangs, pods int) [][]client.Object {
		var members []client.Object
		for i := range gangs {
			for k := range pods {
				p := barePod(fmt.Sprintf("gang-%03d-%d", i, k), fmt.Sprint(i), hall.GPUs)
				pin(p, shape, i%shape.Racks())
				members = append(members, p)
			}
		}
		return [][]client.Object{members}
	}
}

func pinLabel(p *corev1.Pod, shape hall.Shape, rack int) {
	labels := shape.Node(rack * shape.HostsPerRack).Labels
	p.Spec.NodeSelector = map[string]string{}
	for _, l := range hall.Levels {
		p.Spec.NodeSelector[l.Key()] = labels[l.Key()]
	}
}

func pinNodeNames(p *corev1.Pod, shape hall.Shape, rack int) {
	var terms []corev1.NodeSelectorTerm // a field can be compared with only one value
	for _, host := range hostsOf(shape, rack) {
		terms = append(terms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{host}},
		}})
	}
	require(p, terms...)
}

func pinHostnames(p *corev1.Pod, shape hall.Shape, rack int) {
	require(p, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: hostsOf(shape, rack)},
	}})
}

func hostsOf(shape hall.Shape, rack int) []string {
	hosts := make([]string, 0, shape.HostsPerRack)
	for i := range shape.HostsPerRack {
		hosts = append(hosts, hall.HostName(rack*shape.HostsPerRack+i))
	}
	return hosts
}

func require(p *corev1.Pod, terms ...corev1.NodeSelectorTerm) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}
