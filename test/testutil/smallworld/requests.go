// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package smallworld

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// DrawRequests draws a world whose pods request CPUs in all ways: in several containers, in init containers, in sidecars, for the pod as a
// unit, and as overhead. Some bound pods are being resized.
func DrawRequests(t *rapid.T) World {
	w := drawWorld(t)
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		n := drawNode(t, i)
		n.Status.Allocatable[corev1.ResourceCPU] = drawQuantity(t, n.Name+" cpus", 3, 9)
		n.Status.Allocatable[corev1.ResourcePods] = drawQuantity(t, n.Name+" pods", 1, 4)
		w.Nodes = append(w.Nodes, n)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "bound") {
		p := drawRequesting(t, fmt.Sprintf("bound-%d", i))
		p.Spec.NodeName = rapid.SampledFrom(w.Nodes).Draw(t, p.Name+" on").Name
		resize(t, p)
		w.Bound = append(w.Bound, p)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "pods") {
		w.Gang = append(w.Gang, drawRequesting(t, fmt.Sprintf("pod-%d", i)))
	}
	return w
}

func drawQuantity(t *rapid.T, label string, least, most int) resource.Quantity {
	return resource.MustParse(strconv.Itoa(rapid.IntRange(least, most).Draw(t, label)))
}

// drawRequesting draws a pod with one or two containers, and up to three init containers.
func drawRequesting(t *rapid.T, name string) *corev1.Pod {
	p := plainPod(name, rapid.IntRange(0, 1).Draw(t, name+" gpus"))
	p.Spec.Containers[0].Name = "main"
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = drawQuantity(t, name+" cpus", 0, 3)
	container := func(called string) corev1.Container {
		return corev1.Container{Name: called, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: drawQuantity(t, name+" "+called, 0, 3)}}}
	}
	if rapid.Bool().Draw(t, name+" has a second container") {
		p.Spec.Containers = append(p.Spec.Containers, container("second"))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, name+" init containers") {
		c := container(fmt.Sprint("init-", i))
		if rapid.Bool().Draw(t, name+" "+c.Name+" is a sidecar") {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if rapid.IntRange(0, 2).Draw(t, name+" requests as a unit") == 0 {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: drawQuantity(t, name+" cpus as a unit", 1, 6)}}
	}
	if rapid.IntRange(0, 3).Draw(t, name+" has overhead") == 0 {
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: drawQuantity(t, name+" overhead", 1, 2)}
	}
	return p
}

// resize has some containers, and some pods as a unit, run with other requests than they state. Some resizes are infeasible.
func resize(t *rapid.T, p *corev1.Pod) {
	drawn := func(label string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: drawQuantity(t, p.Name+" "+label, 0, 4)}
	}
	running := func(c corev1.Container) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: c.Name, AllocatedResources: drawn(c.Name + " is allocated"),
			Resources: &corev1.ResourceRequirements{Requests: drawn(c.Name + " has")}}
	}
	if rapid.Bool().Draw(t, p.Name+" is resized") {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, running(p.Spec.Containers[0]))
		for _, c := range p.Spec.InitContainers {
			if c.RestartPolicy != nil {
				p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, running(c))
			}
		}
		if rapid.Bool().Draw(t, p.Name+" cannot be resized") {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
			})
		}
	}
	if p.Spec.Resources != nil && rapid.Bool().Draw(t, p.Name+" is resized as a unit") {
		p.Status.AllocatedResources = drawn("is allocated as a unit")
		p.Status.Resources = &corev1.ResourceRequirements{Requests: drawn("has as a unit")}
	}
}
