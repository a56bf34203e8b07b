// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const limitless = "example.com/device"

func amounts(of map[corev1.ResourceName]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, amount := range of {
		out[name] = resource.MustParse(amount)
	}
	return out
}

// What admission adds to pods that do not exist yet decides where they fit, as it would for those that do; and what is wrong or not known is said.
func TestPodsAreAsAdmissionMakesThem(t *testing.T) {
	gvisor := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Overhead: &nodev1.Overhead{PodFixed: amounts(map[corev1.ResourceName]string{"memory": "20Gi"})}}
	selecting := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"zone": "b"}}}
	limits := func(item corev1.LimitRangeItem) *corev1.LimitRange {
		item.Type = corev1.LimitTypeContainer
		return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}
	}
	for name, tc := range map[string]struct {
		world  func(*World)
		spec   func(*corev1.PodSpec)
		single bool // a pod without a constraint, which the kube-scheduler places
		want   string
		notes  []string
	}{
		"nothing": {want: "Worker-0 in a/r0"},
		"overhead of a RuntimeClass": {
			world: func(w *World) { w.Runtimes = []*nodev1.RuntimeClass{gvisor} }, spec: func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("gvisor") },
			want: "Worker-0 NeverFits",
		},
		"overhead of a RuntimeClass, for a pod without a constraint": {
			world: func(w *World) { w.Runtimes = []*nodev1.RuntimeClass{gvisor} }, spec: func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("gvisor") }, single: true,
			want: "Worker-0 NeverFits",
		},
		"selector of a RuntimeClass": {
			world: func(w *World) { w.Runtimes = []*nodev1.RuntimeClass{selecting} }, spec: func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("gvisor") },
			want: "Worker-0 in b/r0",
		},
		"a RuntimeClass that is not known": {
			spec: func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("gvisor") }, want: "Worker-0 in a/r0",
			notes: []string{`RuntimeClass "gvisor" is not among the objects: planned without its overhead, node selector and tolerations`},
		},
		"a default of a LimitRange": {
			world: func(w *World) {
				w.Limits = []*corev1.LimitRange{limits(corev1.LimitRangeItem{DefaultRequest: amounts(map[corev1.ResourceName]string{"memory": "20Gi"})})}
			},
			want: "Worker-0 NeverFits",
		},
		"a maximum of a LimitRange": {
			world: func(w *World) {
				w.Limits = []*corev1.LimitRange{limits(corev1.LimitRangeItem{Max: amounts(map[corev1.ResourceName]string{"nvidia.com/gpu": "4"})})}
			},
			want: "Worker-0 in a/r0", notes: []string{"its pods would be refused: LimitRange limits: container main: nvidia.com/gpu limit 8 is above the maximum of 4"},
		},
		"host ports": {
			world: func(w *World) {
				for _, node := range []string{"a-r0-0", "a-r1-0", "b-r0-0"} {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: node}, Spec: corev1.PodSpec{NodeName: node}}
					pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 9000}}}}
					w.Pods = append(w.Pods, pod)
				}
			},
			spec: func(s *corev1.PodSpec) {
				s.HostNetwork = true
				s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 9000}}
			},
			want: "Worker-0 in b/r1",
		},
		"served by a DeviceClass": {
			world: func(w *World) {
				w.Devices = []*resourcev1.DeviceClass{{Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To(limitless)}}}
			},
			spec: func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits[limitless] = resource.MustParse("1") }, want: "Worker-0 in a/r0",
			notes: []string{limitless + " is not counted on nodes where a DeviceClass serves it: the kube-scheduler decides whether they have the devices"},
		},
		"ignored": {
			world: func(w *World) { w.Ignored = []string{limitless} },
			spec:  func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits[limitless] = resource.MustParse("1") }, want: "Worker-0 in a/r0",
		},
		"neither served nor ignored": {
			spec: func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits[limitless] = resource.MustParse("1") }, want: "Worker-0 NeverFits",
		},
		"claims": {
			spec: func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} }, want: "Worker-0 in a/r0",
			notes: []string{"its resource claims are not counted (they, their classes or devices are not known): the kube-scheduler decides whether a node has their devices"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2)
			for _, n := range w.Nodes {
				n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("16Gi")
			}
			if tc.world != nil {
				tc.world(&w)
			}
			dgd := deployment("g", 1)
			if tc.single {
				dgd.Spec.TopologyConstraint, dgd.Component("Worker").TopologyConstraint, dgd.Component("Worker").Multinode = nil, nil, nil
			}
			if tc.spec != nil {
				tc.spec(&dgd.Component("Worker").PodTemplate.Spec)
			}
			p := NewPlanner(w)
			if got := scenario(t, p, dgd); got != tc.want {
				t.Errorf("planned %q, want %q", got, tc.want)
			}
			warnings := field.In(p.Warnings(dgd), "")
			notes := slices.DeleteFunc(slices.Clone(warnings), func(line string) bool { return !slices.Contains(tc.notes, line) })
			if diff := cmp.Diff(tc.notes, notes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("notes (-want +got):\n%s\nof %q", diff, warnings)
			}
		})
	}
}

// Pods that are planned count in later plans with all that admission adds to them.
func TestPlannedPodsAreAdmitted(t *testing.T) {
	w := newWorld(2)
	w.Runtimes = []*nodev1.RuntimeClass{{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Overhead: &nodev1.Overhead{PodFixed: amounts(map[corev1.ResourceName]string{"memory": "2Gi"})}}}
	for _, n := range w.Nodes {
		n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("16Gi")
	}
	dgd := deployment("g", 1)
	dgd.Component("Worker").PodTemplate.Spec.RuntimeClassName = ptr.To("gvisor")
	g, err := NewPlanner(w).Plan(dgd)
	if err != nil {
		t.Fatal(err)
	}
	pods := g.PlannedPods()
	if len(pods) != 2 {
		t.Fatalf("%d pods are planned, want 2", len(pods))
	}
	for _, pod := range pods {
		for _, r := range topology.ShapeOf(pod).Requests() {
			if r.Name == string(corev1.ResourceMemory) && r.Amount == 2<<30 {
				return
			}
		}
		t.Errorf("%s takes %v, without its overhead", pod.Name, topology.ShapeOf(pod).Requests())
	}
}
