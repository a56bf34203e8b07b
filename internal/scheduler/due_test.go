// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// waitingKinds are graphs that ask for different things.
func waitingKinds() []gang.Observation {
	edits := []func(*corev1.Pod){
		func(*corev1.Pod) {},
		func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") },
		func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
		func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"pool": "x"} },
		func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3")}
		},
	}
	var out []gang.Observation
	for i, edit := range edits {
		for size := range int32(2) {
			o := asking(2*i+int(size)+1, size+1, 0)
			for _, pod := range o.Pods {
				edit(pod)
			}
			out = append(out, o)
		}
	}
	return out
}

// fits reports whether a graph would be placed now.
func (b *bench) fits(o gang.Observation) bool {
	c := b.s.ledger.cluster
	c.Begin()
	defer c.Rollback()
	planned := placement.PlanGraph(c, gang.NewRequest(o).Graph, placement.Options{})
	return planned.Placed()
}

func drawHost(t *rapid.T, name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"z": "z", "r": rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "rack")}}}
	if rapid.Bool().Draw(t, "pool") {
		node.Labels["pool"] = "x"
	}
	node.Spec.Unschedulable = rapid.IntRange(0, 5).Draw(t, "cordoned") == 0
	if rapid.IntRange(0, 4).Draw(t, "tainted") == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}
	for _, name := range []corev1.ResourceName{"gpu", "cpu"} {
		node.Status.Allocatable[name] = *resource.NewQuantity(int64(rapid.IntRange(0, 4).Draw(t, string(name))), resource.DecimalSI)
	}
	if rapid.IntRange(0, 5).Draw(t, "down") == 0 {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	}
	return node
}

// drawBound is a pod of another client on a node, of any size, also in the middle of a resize, and in any phase.
func drawBound(t *rapid.T, name, node string) *corev1.Pod {
	amounts := func(what string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{"gpu", "cpu"} {
			list[name] = *resource.NewQuantity(int64(rapid.IntRange(0, 3).Draw(t, what+string(name))), resource.DecimalSI)
		}
		return list
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: name, UID: types.UID(name)}}
	pod.Spec.NodeName, pod.Spec.Containers = node, []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts("spec ")}}}
	switch rapid.IntRange(0, 5).Draw(t, "special") {
	case 0:
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	case 1:
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": amounts("pod ")["cpu"]}}
		pod.Status.AllocatedResources = corev1.ResourceList{"cpu": amounts("allocated ")["cpu"]}
		pod.Status.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": amounts("actuated ")["cpu"]}}
	case 2:
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: amounts("allocated ")}}
	case 3:
		pod.DeletionTimestamp = &metav1.Time{Time: begin}
	case 4:
		pod.Status.Phase = corev1.PodFailed
	}
	return pod
}

// Whatever happens to nodes and pods of others, a waiting graph that fits now and did not before is due at once.
func TestGraphsThatFitAreDue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, all := newBench(t, Options{}), graphs{}
		b.s.objects.reader = all
		kinds, fitted := waitingKinds(), map[string]bool{}
		for _, o := range kinds {
			all[o.DGD.Name] = o
		}
		nodes, pods := map[string]*corev1.Node{}, map[string]*corev1.Pod{}
		node := func() string { return rapid.SampledFrom([]string{"a0", "a1", "b0", "b1"}).Draw(rt, "node") }
		look := func() { // those that are refused say what they need
			for _, o := range kinds {
				if fitted[o.DGD.Name] = b.fits(o); !fitted[o.DGD.Name] {
					b.s.queue.setWaiting(clientKey(o), true, b.decide(o).waits)
				}
			}
			b.s.wakeFreed()
			b.s.queue.take(b.clock.Now())
		}
		look()
		rt.Repeat(map[string]func(*rapid.T){
			"node": func(rt *rapid.T) {
				now := drawHost(rt, node())
				b.s.ledger.nodeChanged(nodes[now.Name], now)
				nodes[now.Name] = now
			},
			"node gone": func(*rapid.T) {
				if gone := nodes[node()]; gone != nil {
					b.s.ledger.nodeGone(gone)
					delete(nodes, gone.Name)
				}
			},
			"pod": func(rt *rapid.T) {
				name := fmt.Sprint("p", rapid.IntRange(0, 7).Draw(rt, "pod"))
				old := pods[name]
				at := node()
				if old != nil {
					at = old.Spec.NodeName // a pod stays where it is bound
				}
				pods[name] = drawBound(rt, name, at)
				b.s.podSet(old, pods[name])
			},
			"pod gone": func(rt *rapid.T) {
				if gone := pods[fmt.Sprint("p", rapid.IntRange(0, 7).Draw(rt, "pod"))]; gone != nil {
					b.s.podGone(gone)
					delete(pods, gone.Name)
				}
			},
			"look": func(*rapid.T) { look() },
			"": func(rt *rapid.T) {
				b.s.wakeFreed()
				due, _ := b.s.queue.take(b.clock.Now())
				for _, o := range kinds {
					name, fits := o.DGD.Name, b.fits(o)
					if fits && !fitted[name] && !slices.Contains(due, clientKey(o)) {
						rt.Fatalf("%s fits and is not due; due are %v", name, due)
					}
					looked := fitted[name] || slices.Contains(due, clientKey(o)) // what fits is looked at, and would be placed
					if fitted[name] = fits; !fits && looked {
						b.s.queue.setWaiting(clientKey(o), true, b.decide(o).waits)
					}
				}
			},
		})
	})
}
