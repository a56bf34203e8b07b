// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

func TestPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment
		want    string
	}{
		"new": {
			func(*testing.T, *World) *nvidiav1beta1.DynamoGraphDeployment { return deployment("g", 2) },
			"Worker-0 in a/r0, Worker-1 in a/r1",
		},
		"its pods wait, gated": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("g", 2), gated)
				return w.Graphs[0]
			},
			"Worker-0 in a/r0, Worker-1 in a/r1",
		},
		"its pods wait for another controller, too": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("g", 2), unadmitted)
				return w.Graphs[0]
			},
			"Worker-0 WaitingForAdmission, Worker-1 WaitingForAdmission",
		},
		"its pods do not exist, and will wait for another controller: it is planned as if admitted": {
			func(*testing.T, *World) *nvidiav1beta1.DynamoGraphDeployment { return withGate(deployment("g", 2)) },
			"Worker-0 in a/r0, Worker-1 in a/r1",
		},
		"it runs, and is scaled out in the file": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("g", 1), released("b", "r1", true))
				return deployment("g", 3)
			},
			"Worker-0 in b/r1 already, Worker-1 in b/r0, Worker-2 InsufficientCapacity",
		},
		"scaled in, the younger one stayed": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("g", 2), released("b", "r1", true))
				w.Pods = w.Pods[2:]
				w.Groups[0].Spec.Replicas = 1
				return deployment("g", 1)
			},
			"Worker-1 in b/r1 already",
		},
		"an update that would like capacity beside what runs does not wait for it": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("g", 2), func(pod *corev1.Pod) {
					released("b", "r"+pod.Labels[render.LabelReplica], true)(pod)
				})
				dgd := deployment("g", 2)
				dgd.Annotations = map[string]string{"nvidia.com/deployment-rolling-update-max-surge": "1"}
				dgd.Component("Worker").PodTemplate.Spec.Containers[0].Image = "app:2"
				return dgd
			},
			"Worker-0 in b/r0 already, Worker-1 in b/r1 already",
		},
		"released and not bound holds capacity": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("other", 1), released("a", "r0", false))
				return deployment("g", 2)
			},
			"Worker-0 in b/r0, Worker-1 in b/r1",
		},
		"and so it does when only the pods are known": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("other", 1), released("a", "r0", false))
				w.Groups, w.Graphs = nil, nil
				return deployment("g", 2)
			},
			"Worker-0 in b/r0, Worker-1 in b/r1",
		},
		"placeholders take nothing": {
			func(_ *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				for _, node := range w.Nodes {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: node.Name, Labels: map[string]string{capacity.LabelAsk: "x"}}}
					pod.Spec.NodeName, pod.Spec.Priority = node.Name, ptr.To[int32](capacity.Priority)
					pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: node.Status.Allocatable}}}
					w.Pods = append(w.Pods, pod)
				}
				return deployment("g", 2)
			},
			"Worker-0 in a/r0, Worker-1 in a/r1",
		},
		"a pod of the replica ends": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("g", 1), released("a", "r0", true))
				w.Pods[1].DeletionTimestamp = &metav1.Time{}
				return w.Graphs[0]
			},
			"Worker-0 Creating",
		},
		"the level is gone": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("g", 1), gated)
				w.Topologies[0].Spec.Levels = w.Topologies[0].Spec.Levels[:1]
				return w.Graphs[0]
			},
			"Worker-0 LevelGone",
		},
		"the constraint may not change": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("g", 1), gated)
				dgd := deployment("g", 1)
				dgd.Spec.TopologyConstraint.PackDomain = "rack"
				return dgd
			},
			"refused: spec.topologyConstraint: Forbidden: spec.topologyConstraint is immutable and cannot be added, removed, or changed after creation; delete and recreate the DynamoGraphDeployment to change topology constraints",
		},
		"constraint by annotations": {
			func(_ *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				dgd := deployment("g", 1)
				dgd.Annotations = map[string]string{constraint.AnnotationTopology: "hall", constraint.AnnotationRequired: "rack"}
				dgd.Spec.TopologyConstraint, dgd.Component("Worker").TopologyConstraint = nil, nil
				w.Nodes[0].Spec.Unschedulable = true
				return dgd
			},
			"Worker-0 in a/r1",
		},
		"default topology": {
			func(_ *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				dgd := deployment("g", 1)
				dgd.Spec.TopologyConstraint, dgd.Component("Worker").TopologyConstraint = nil, nil
				w.Topologies[0].Annotations = map[string]string{constraint.AnnotationDefault: "true"}
				w.Nodes[0].Spec.Unschedulable = true
				return dgd
			},
			"Worker-0 in a/r1",
		},
		"no constraint and no default": {
			func(_ *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				dgd := deployment("g", 1)
				dgd.Spec.TopologyConstraint, dgd.Component("Worker").TopologyConstraint = nil, nil
				w.Nodes[0].Spec.Unschedulable = true
				return dgd
			},
			"Worker-0 in ",
		},
		"priority frees capacity": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				for i, place := range []string{"a/r0", "a/r1", "b/r0", "b/r1"} {
					zone, rack, _ := strings.Cut(place, "/")
					w.exist(t, deployment(fmt.Sprintf("low-%d", i), 1), released(zone, rack, true))
				}
				for _, pod := range w.Pods[2:] { // all but those in a/r0 matter as much
					pod.Spec.Priority = ptr.To[int32](1000)
				}
				w.Priorities = []*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}}
				dgd := deployment("g", 1)
				dgd.Spec.PriorityClassName = "high"
				return dgd
			},
			"Worker-0 in a/r0 preempts 2",
		},
		"a class that never preempts": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				for i, place := range []string{"a/r0", "a/r1", "b/r0", "b/r1"} {
					zone, rack, _ := strings.Cut(place, "/")
					w.exist(t, deployment(fmt.Sprintf("low-%d", i), 1), released(zone, rack, true))
				}
				w.Priorities = []*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000, PreemptionPolicy: ptr.To(corev1.PreemptNever)}}
				dgd := deployment("g", 1)
				dgd.Spec.PriorityClassName = "high"
				return dgd
			},
			"Worker-0 InsufficientCapacity",
		},
		"an adapter's number that is not carried over yet": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				dgd := deployment("g", 1)
				dgd.Component("Worker").ScalingAdapter = &nvidiav1beta1.ScalingAdapter{}
				w.exist(t, dgd, gated)
				dgd.Component("Worker").Replicas = ptr.To[int32](5) // written behind the adapter's back
				return dgd
			},
			"Worker-0 in a/r0",
		},
		"another provider's": {
			func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
				w.exist(t, deployment("g", 1), gated)
				w.Groups[0].Spec.Provider = specs.Grove.Name
				return w.Graphs[0]
			},
			"error: its pods are created and placed by Grove, not by Trellis",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2)
			dgd := tc.prepare(t, &w)
			if diff := cmp.Diff(tc.want, scenario(t, NewPlanner(w), dgd)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What one takes is gone for the next, until it is rolled back.
func TestPlansAddUp(t *testing.T) {
	p := NewPlanner(newWorld(2))
	p.Begin()
	var got []string
	for _, name := range []string{"a", "b", "c"} {
		got = append(got, scenario(t, p, deployment(name, 2)))
	}
	p.Rollback()
	got = append(got, scenario(t, p, deployment("d", 2)))
	want := []string{
		"Worker-0 in a/r0, Worker-1 in a/r1", "Worker-0 in b/r0, Worker-1 in b/r1", "Worker-0 InsufficientCapacity, Worker-1 BaseGangWaits", "Worker-0 in a/r0, Worker-1 in a/r1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWarnings(t *testing.T) {
	dgd := withGate(deployment("g", 1))
	dgd.Labels = map[string]string{render.LabelKueueQueue: "q"}
	dgd.Spec.PriorityClassName = "high"
	dgd.Component("Worker").ScalingAdapter = &nvidiav1beta1.ScalingAdapter{}
	w := newWorld(1)
	w.exist(t, dgd, gated)
	scaled := dgd.DeepCopy()
	scaled.Component("Worker").Replicas = ptr.To[int32](5)
	got := strings.Join(field.In(NewPlanner(w).Warnings(scaled), ""), "\n")
	for _, want := range []string{`PriorityClass "high" is not among the objects`, "planned anyway: spec.components[0].replicas stays ",
		`planned as if admitted; nothing is placed before another controller removes their scheduling gate "example.com/quota"`,
		"planned as if it had quota: nothing is placed before Kueue admits it from queue q"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Of equally close domains the one is named where least has to go, and never the graph's own pods first.
func TestObstacles(t *testing.T) {
	w := newWorld(2)
	w.exist(t, deployment("g", 1), released("a", "r0", true))
	w.occupy("a-r1-0", 3, 3, 2)
	w.occupy("a-r1-1", 2, 1)
	for _, n := range w.Nodes[4:] {
		n.Spec.Unschedulable = true
	}
	p := NewPlanner(w)
	dgd := deployment("g", 2)
	g, err := p.Plan(dgd)
	if err != nil {
		t.Fatal(err)
	}
	domain, list, _ := p.Obstacles(g, g.Replicas[1].Reason.Refusal)
	got := []string{domain.String()}
	for _, o := range list {
		line := o.Node + ":"
		for _, pod := range o.Pods {
			line += fmt.Sprintf(" %s(%d)", pod.Name, pod.Amount)
		}
		got = append(got, line)
	}
	want := []string{"a/r1", "a-r1-1: a-r1-1-0(2) a-r1-1-1(1)", "a-r1-0: a-r1-0-0(3) a-r1-0-1(3) a-r1-0-2(2)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A host that the pods' selector or affinity leaves out is never easy to free: the domain is named whose hosts are short of something.
func TestObstaclesOfAMismatch(t *testing.T) {
	w := newWorld(2)
	for _, n := range w.Nodes[4:] {
		n.Labels["pool"] = "x"
		n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2")
		w.occupy(n.Name, 0)
		w.Pods[len(w.Pods)-1].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
	}
	dgd := deployment("g", 1)
	spec := &dgd.Component("Worker").PodTemplate.Spec
	spec.NodeSelector = map[string]string{"pool": "x"}
	spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2")
	p := NewPlanner(w)
	g, err := p.Plan(dgd)
	if err != nil {
		t.Fatal(err)
	}
	domain, list, _ := p.Obstacles(g, g.Replicas[0].Reason.Refusal)
	got := []string{domain.String()}
	for _, o := range list {
		got = append(got, o.Node+": "+o.Why.String())
	}
	want := []string{"b/r0", "b-r0-0: short of cpu", "b-r0-1: short of cpu"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
