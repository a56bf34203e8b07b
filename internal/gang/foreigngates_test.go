// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// withGates adds scheduling gates of other controllers to a pod.
func withGates(pod *corev1.Pod, gates ...string) *corev1.Pod {
	for _, gate := range gates {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gate})
	}
	return pod
}

func TestAdmissionWait(t *testing.T) {
	sg := newGroup("work", 1, 3, nil)
	pods := func(gates ...string) (out []*corev1.Pod) {
		for index, names := range gates {
			out = append(out, withGates(newPod(sg, 0, int32(index)), strings.Fields(names)...))
		}
		slices.Reverse(out) // the order of a cache is any
		return out
	}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"no gates of others": {pods("", "", ""), ""},
		"a gate on every pod: the first pod is named": {pods("example.com/quota", "example.com/quota", "example.com/quota"),
			`waits for admission: another controller has to remove the scheduling gate "example.com/quota" from pod g-work-0-0`},
		"a gate on one pod": {pods("", "", "example.com/quota"),
			`waits for admission: another controller has to remove the scheduling gate "example.com/quota" from pod g-work-0-2`},
		"several gates": {pods("", "b c a", "d"),
			`waits for admission: other controllers have to remove the scheduling gate "a" and 2 more from pod g-work-0-1`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := AdmissionWait(tc.pods); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// admissionLines are what waits for admission, and what is planned, in a line for each replica; those that are placed later in brackets.
func admissionLines(r *Request) []string {
	var lines []string
	for _, w := range r.Unadmitted {
		pod := w.Message[strings.LastIndex(w.Message, " ")+1:]
		lines = append(lines, fmt.Sprintf("%s-%d %s %s", w.Component, w.Ordinal, w.Code, pod))
	}
	for _, s := range r.Graph.Components {
		for _, replica := range s.Waiting {
			line := fmt.Sprintf("%s-%d planned", s.Name, replica.Ordinal)
			if replica.Later {
				line = fmt.Sprintf("(%s-%d)", s.Name, replica.Ordinal)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func TestForeignGatesComeFirst(t *testing.T) {
	const gate = "example.com/quota"
	together := func(sg *trellisv1alpha1.ScalingGroup, n int32) *trellisv1alpha1.ScalingGroup {
		sg.Spec.MinAvailable = ptr.To(n)
		return sg
	}
	for name, tc := range map[string]struct {
		groups []*trellisv1alpha1.ScalingGroup
		pods   func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod
		want   []string
	}{
		"one pod holds its replica": {
			groups: []*trellisv1alpha1.ScalingGroup{newGroup("work", 1, 2, frozen("", "rack"))},
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), withGates(newPod(g[0], 0, 1), gate)}
			},
			want: []string{"work-0 WaitingForAdmission g-work-0-1", "(work-0)"},
		},
		"another replica of the service is planned": {
			groups: []*trellisv1alpha1.ScalingGroup{newGroup("work", 2, 1, frozen("", "rack"))},
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{withGates(newPod(g[0], 0, 0), gate), newPod(g[0], 1, 0)}
			},
			want: []string{"work-0 WaitingForAdmission g-work-0", "(work-0)", "work-1 planned"},
		},
		"one pod holds the base gang, and what follows it": {
			groups: []*trellisv1alpha1.ScalingGroup{newGroup("front", 1, 1, frozen("zone", "")), newGroup("work", 2, 1, frozen("zone", "rack"))},
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), withGates(newPod(g[1], 0, 0), gate), newPod(g[1], 1, 0)}
			},
			want: []string{"front-0 WaitingForAdmission g-work-0", "work-0 WaitingForAdmission g-work-0", "work-1 WaitingForAdmission g-work-0"},
		},
		"a replica beyond the base gang waits alone": {
			groups: []*trellisv1alpha1.ScalingGroup{newGroup("front", 1, 1, frozen("zone", "")), newGroup("work", 2, 1, frozen("zone", "rack"))},
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), newPod(g[1], 0, 0), withGates(newPod(g[1], 1, 0), gate)}
			},
			want: []string{"work-1 WaitingForAdmission g-work-1", "front-0 planned", "work-0 planned", "(work-1)"},
		},
		"the first replicas of a service wait together": {
			groups: []*trellisv1alpha1.ScalingGroup{together(newGroup("work", 3, 1, frozen("", "rack")), 2), newGroup("zzz", 1, 1, frozen("", "rack"))},
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0), withGates(newPod(g[0], 1, 0), gate), newPod(g[0], 2, 0), newPod(g[1], 0, 0)}
			},
			want: []string{
				"work-0 WaitingForAdmission g-work-1", "work-1 WaitingForAdmission g-work-1", "work-2 WaitingForAdmission g-work-1", "zzz-0 planned",
			},
		},
		"in a running graph each replica waits alone": {
			groups: []*trellisv1alpha1.ScalingGroup{newGroup("front", 1, 1, frozen("zone", "")), together(newGroup("work", 3, 1, frozen("zone", "rack")), 2)},
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{newPod(g[0], 0, 0, "a"), newPod(g[1], 0, 0, "a", "1"), withGates(newPod(g[1], 1, 0), gate), newPod(g[1], 2, 0)}
			},
			want: []string{"work-1 WaitingForAdmission g-work-1", "(work-1)", "work-2 planned"},
		},
		"a released pod with a gate of another controller is no reason to hold others": {
			groups: []*trellisv1alpha1.ScalingGroup{newGroup("work", 2, 1, frozen("zone", "rack"))},
			pods: func(g []*trellisv1alpha1.ScalingGroup) []*corev1.Pod {
				return []*corev1.Pod{withGates(newPod(g[0], 0, 0, "a", "1"), gate), newPod(g[0], 1, 0)}
			},
			want: []string{"work-1 planned"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			r := NewRequest(Observation{DGD: dgd, Groups: tc.groups, Pods: tc.pods(tc.groups), ClusterTopology: hall})
			if diff := cmp.Diff(tc.want, admissionLines(r)); diff != "" {
				t.Error(diff)
			}
			if planned := slices.ContainsFunc(tc.want, func(line string) bool { return strings.HasSuffix(line, "planned") }); r.HasWaiting() != planned {
				t.Errorf("HasWaiting is %v", r.HasWaiting())
			}
			if len(r.Unadmitted) > 0 && r.AllBound() {
				t.Error("AllBound although something waits for admission")
			}
		})
	}
}
