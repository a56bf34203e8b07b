// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// group returns a multinode group of replicas replicas with size pods each.
func group(replicas, size int32) *trellisv1alpha1.ScalingGroup {
	roles := []trellisv1alpha1.Role{{Name: "leader", Count: 1}, {Name: "worker", Count: size - 1}}
	if size == 1 {
		roles = []trellisv1alpha1.Role{{Name: "main", Count: 1}}
	}
	return &trellisv1alpha1.ScalingGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g-worker", UID: "sg"},
		Spec: trellisv1alpha1.ScalingGroupSpec{
			Graph: "g", Component: "Worker", Provider: specs.Gates.Name, Replicas: replicas, Multinode: size > 1, Revision: "new", Roles: roles,
			Topology: &trellisv1alpha1.ResolvedTopology{ClusterTopology: "p", Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "rack", Key: "rack"}}, PackDomain: "rack"},
		},
	}
}

// state is what became of a pod.
type state func(*corev1.Pod)

func gated(*corev1.Pod) {}

func running(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = nil
	pod.Spec.NodeName = "node"
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func unready(pod *corev1.Pod) { running(pod); pod.Status.Conditions = nil }

func old(s state) state {
	return func(pod *corev1.Pod) { s(pod); pod.Labels[render.LabelRevision] = "old" }
}

// sized pods were made when a replica had size of them.
func sized(s state, size int) state {
	return func(pod *corev1.Pod) { s(pod); pod.Labels[render.LabelReplicaSize] = strconv.Itoa(size) }
}

// before: made before the restart.
func before(s state) state {
	return func(pod *corev1.Pod) { s(pod); delete(pod.Annotations, render.AnnotationRestart) }
}

func surge(sg *trellisv1alpha1.ScalingGroup) *trellisv1alpha1.ScalingGroup {
	sg.Spec.Rollout = &trellisv1alpha1.RolloutStrategy{MaxUnavailable: intstr.FromInt32(0), MaxSurge: intstr.FromString("50%")}
	return sg
}

// stepped may have so many replicas more or less, as far as its step allows.
func stepped(sg *trellisv1alpha1.ScalingGroup, step trellisv1alpha1.RolloutStep) *trellisv1alpha1.ScalingGroup {
	sg.Spec.Step = &step
	return sg
}

func restarted(sg *trellisv1alpha1.ScalingGroup, stop bool) *trellisv1alpha1.ScalingGroup {
	sg.Spec.Restart = &trellisv1alpha1.Restart{ID: "now", Stop: stop}
	return sg
}

func unschedulable(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = nil
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
}

func terminating(pod *corev1.Pod) { running(pod); now := metav1.Now(); pod.DeletionTimestamp = &now }

func failed(pod *corev1.Pod) { running(pod); pod.Status.Phase = corev1.PodFailed }

func nodeless(pod *corev1.Pod) { running(pod); pod.Spec.NodeName = "gone" }

// podsOf makes the pods of one replica; a nil state leaves the pod out.
func podsOf(sg *trellisv1alpha1.ScalingGroup, ordinal int32, states ...state) []*corev1.Pod {
	var out []*corev1.Pod
	for index, s := range states {
		if s == nil {
			continue
		}
		pod := render.BuildPod(sg, ordinal, int32(index))
		pod.UID = types.UID(fmt.Sprintf("%d-%d", ordinal, index))
		s(pod)
		out = append(out, pod)
	}
	return out
}

func TestPlan(t *testing.T) {
	cases := map[string]struct {
		sg                     *trellisv1alpha1.ScalingGroup
		pods                   [][]state
		wantCreate, wantDelete []string
	}{
		"nothing there: everything is created": {
			sg: group(2, 2), wantCreate: []string{"g-worker-0-0", "g-worker-0-1", "g-worker-1-0", "g-worker-1-1"},
		},
		"creation was cut short: only the missing pod is created": {
			sg: group(1, 3), pods: [][]state{{gated, nil, gated}}, wantCreate: []string{"g-worker-0-1"},
		},
		"in a step, no more than it says is replaced": {
			sg:   stepped(group(3, 1), trellisv1alpha1.RolloutStep{Keep: 2, Make: 1, MaxUnavailable: 2}),
			pods: [][]state{{old(running)}, {old(running)}, {old(running)}}, wantDelete: []string{"g-worker-2"},
		},
		"in a step, no more than it says is created, in the place of what is gone": {
			sg:   stepped(group(3, 1), trellisv1alpha1.RolloutStep{Keep: 1, Make: 1, MaxUnavailable: 2}),
			pods: [][]state{{old(running)}}, wantCreate: []string{"g-worker-1"},
		},
		"a step that holds replaces what does not serve alone, and creates nothing": {
			sg:   stepped(group(3, 1), trellisv1alpha1.RolloutStep{Keep: math.MaxInt32, MaxUnavailable: 3}),
			pods: [][]state{{old(running)}, {old(gated)}}, wantDelete: []string{"g-worker-1"},
		},
		"scaled in during a step, the old replicas that the others serve with stay": {
			sg:   stepped(group(2, 1), trellisv1alpha1.RolloutStep{Keep: 1, Make: 2, MaxUnavailable: 1}),
			pods: [][]state{{old(running)}, {running}, {running}}, wantDelete: []string{"g-worker-2"},
		},
		"a half made replica of an older revision is not completed with pods of the new one": {
			sg: group(1, 3), pods: [][]state{{old(gated), nil, old(gated)}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-2"},
		},
		"nor is it while the update is paused": {
			sg:   stepped(group(1, 3), trellisv1alpha1.RolloutStep{Keep: math.MaxInt32, Make: 1, Paused: true}),
			pods: [][]state{{old(gated), nil, old(gated)}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-2"},
		},
		"an entire one stays while the update is paused": {
			sg:   stepped(group(1, 2), trellisv1alpha1.RolloutStep{Keep: math.MaxInt32, Make: 1, Paused: true}),
			pods: [][]state{{old(gated), old(gated)}},
		},
		"one of an older size that has no place is recreated while the update is paused": {
			sg:   stepped(group(1, 3), trellisv1alpha1.RolloutStep{Keep: math.MaxInt32, Make: 1, Paused: true}),
			pods: [][]state{{old(sized(gated, 2)), old(sized(gated, 2))}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-1"},
		},
		"one of two revisions that has no place is recreated while the update is paused": {
			sg:   stepped(group(1, 2), trellisv1alpha1.RolloutStep{Keep: math.MaxInt32, Make: 1, Paused: true}),
			pods: [][]state{{gated, old(gated)}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-1"},
		},
		"what runs of an older size stays while the update is paused": {
			sg:   stepped(group(1, 3), trellisv1alpha1.RolloutStep{Keep: math.MaxInt32, Paused: true}),
			pods: [][]state{{old(sized(running, 2)), old(sized(unready, 2))}},
		},
		"what is released of an older size stays while the update is paused": {
			sg:   stepped(group(1, 3), trellisv1alpha1.RolloutStep{Keep: math.MaxInt32, Paused: true}),
			pods: [][]state{{old(sized(unschedulable, 2)), old(sized(gated, 2))}},
		},
		"whole and running: nothing": {
			sg: group(1, 2), pods: [][]state{{running, running}},
		},
		"a released replica lost a pod: the rest goes too": {
			sg: group(1, 3), pods: [][]state{{running, nil, running}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-2"},
		},
		"a release cut short that lost a pod goes too": {
			sg: group(1, 3), pods: [][]state{{running, nil, gated}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-2"},
		},
		"a pod is terminating: the rest goes, nothing is created before it is gone": {
			sg: group(1, 2), pods: [][]state{{running, terminating}}, wantDelete: []string{"g-worker-0-0"},
		},
		"a pod failed: the whole replica goes": {
			sg: group(2, 2), pods: [][]state{{running, failed}, {running, running}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-1"},
		},
		"a node is gone: the whole replica goes": {
			sg: group(1, 2), pods: [][]state{{running, nodeless}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-1"},
		},
		"scale-in takes the last replica whole": {
			sg: group(1, 2), pods: [][]state{{running, running}, {running, running}}, wantDelete: []string{"g-worker-1-0", "g-worker-1-1"},
		},
		"scale-in takes the one in the middle that does not serve; the others keep their numbers": {
			sg: group(2, 2), pods: [][]state{{running, running}, {running, unready}, {running, running}}, wantDelete: []string{"g-worker-1-0", "g-worker-1-1"},
		},
		"a number in the middle is free: nothing": {
			sg: group(2, 2), pods: [][]state{{running, running}, {nil, nil}, {running, running}},
		},
		"scale-out fills the gap": {
			sg: group(3, 2), pods: [][]state{{running, running}, {nil, nil}, {running, running}}, wantCreate: []string{"g-worker-1-0", "g-worker-1-1"},
		},
		"scale-in takes what is not placed first, then what the scheduler finds no node for": {
			sg: group(1, 1), pods: [][]state{{gated}, {unschedulable}, {unready}}, wantDelete: []string{"g-worker-0", "g-worker-1"},
		},
		"scale to zero": {
			sg: group(0, 2), pods: [][]state{{running, gated}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-1"},
		},
		"rolling update takes one serving replica at a time, the last first": {
			sg: group(3, 1), pods: [][]state{{old(running)}, {old(running)}, {old(running)}}, wantDelete: []string{"g-worker-2"},
		},
		"replicas of an older size are whole": {
			sg: group(2, 3), pods: [][]state{{old(sized(running, 2)), old(sized(running, 2))}, {old(sized(running, 2)), old(sized(running, 2))}},
			wantDelete: []string{"g-worker-1-0", "g-worker-1-1"},
		},
		"a replica of an older size that lost a pod is not": {
			sg: group(1, 3), pods: [][]state{{old(sized(running, 2)), nil}}, wantDelete: []string{"g-worker-0-0"},
		},
		"one more is made beside the old ones": {
			sg: surge(group(2, 1)), pods: [][]state{{old(running)}, {old(running)}}, wantCreate: []string{"g-worker-2"},
		},
		"a restart replaces what was made before it": {
			sg: restarted(group(2, 1), false), pods: [][]state{{running}, {before(running)}}, wantDelete: []string{"g-worker-1"},
		},
		"a restart that stops everything": {
			sg: restarted(group(3, 1), true), pods: [][]state{{before(running)}, {before(gated)}, {nil}}, wantDelete: []string{"g-worker-0", "g-worker-1"},
		},
		"rolling update waits while a replica does not serve": {
			sg: group(3, 1), pods: [][]state{{old(running)}, {old(running)}, {unready}},
		},
		"rolling update replaces what does not serve anyway, at once": {
			sg: group(3, 1), pods: [][]state{{old(running)}, {old(unready)}, {old(gated)}}, wantDelete: []string{"g-worker-1", "g-worker-2"},
		},
		"a single pod that is gone is recreated": {
			sg: group(2, 1), pods: [][]state{{running}, {nil}}, wantCreate: []string{"g-worker-1"},
		},
		"a single pod of the same name is awaited until it is gone": {
			sg: group(1, 1), pods: [][]state{{terminating}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			for ordinal, states := range c.pods {
				pods = append(pods, podsOf(c.sg, int32(ordinal), states...)...)
			}
			replicas := replicasOf(c.sg, pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "gone" })
			got := stepsOf(c.sg, replicas, attempts{}, plan(c.sg, replicas))
			var create, remove []string
			for _, pod := range got.create {
				create = append(create, pod.Name)
			}
			for _, d := range got.delete {
				remove = append(remove, d.pod.Name)
				if d.force != (d.pod.Spec.NodeName == "gone") {
					t.Errorf("pod %s: force = %v; only a pod without a node is deleted without its kubelet", d.pod.Name, d.force)
				}
			}
			slices.Sort(remove)
			if diff := cmp.Diff(c.wantCreate, create); diff != "" {
				t.Errorf("created pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.wantDelete, remove); diff != "" {
				t.Errorf("deleted pods (-want +got):\n%s", diff)
			}
		})
	}
}

// A group whose new pods are reported when they are seen is requeued: what it asked for may get no answer, and pods may be gone before they
// were seen.
func TestAGroupThatMakesPodsIsRequeued(t *testing.T) {
	for name, tc := range map[string]struct {
		steps steps
		want  time.Duration
	}{
		"a place is asked for":   {steps{asked: true}, seenBy},
		"pods are created":       {steps{inPlace: []*planned{{}}}, seenBy},
		"more are to be created": {steps{asked: true, more: true}, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := (&pass{decision: decision{steps: tc.steps}}).finish(t.Context(), nil)
			if err != nil || result.RequeueAfter != tc.want {
				t.Errorf("again after %s, error %v; want %s", result.RequeueAfter, err, tc.want)
			}
		})
	}
}
