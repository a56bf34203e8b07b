// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestTopologyLevels: the polarity turns round, and only a plain False of Grove's reads as available.
func TestTopologyLevels(t *testing.T) {
	cases := map[string]struct {
		status     metav1.ConditionStatus
		reason     string
		generation int64
		want       grove.Levels
		silent     bool
	}{
		"not judged":            {silent: true},
		"judged an earlier one": {status: "False", reason: "AllClusterTopologyLevelsAvailable", generation: 1, silent: true},
		"available": {status: "False", reason: "AllClusterTopologyLevelsAvailable", generation: 2,
			want: grove.Levels{Available: true, Reason: nvidiav1beta1.ReasonAllTopologyLevelsAvailable, Message: "All required topology levels are available in the cluster topology"}},
		"level gone": {status: "True", reason: "ClusterTopologyLevelsUnavailable", generation: 2,
			want: grove.Levels{Reason: nvidiav1beta1.ReasonTopologyLevelsUnavailable, Message: "Grove: ClusterTopologyLevelsUnavailable: words; pods placed from now on are not constrained"}},
		"topology gone": {status: "Unknown", reason: "ClusterTopologyNotFound", generation: 2,
			want: grove.Levels{Reason: nvidiav1beta1.ReasonTopologyDefinitionNotFound, Message: "Grove: ClusterTopologyNotFound: words; pods placed from now on are not constrained"}},
		"topology gone, in the words of its design": {status: "True", reason: "ClusterTopologyNotFound", generation: 2,
			want: grove.Levels{Reason: nvidiav1beta1.ReasonTopologyDefinitionNotFound, Message: "Grove: ClusterTopologyNotFound: words; pods placed from now on are not constrained"}},
		"topology gone, and the set changed since": {status: "Unknown", reason: "ClusterTopologyNotFound", generation: 1,
			want: grove.Levels{Reason: nvidiav1beta1.ReasonTopologyDefinitionNotFound, Message: "Grove: ClusterTopologyNotFound: words; pods placed from now on are not constrained"}},
		"no name": {status: "Unknown", reason: "TopologyNameMissing", generation: 2,
			want: grove.Levels{Reason: nvidiav1beta1.ReasonTopologyLevelsUnavailable, Message: "Grove: TopologyNameMissing: words; pods placed from now on are not constrained"}},
		"switched off": {status: "Unknown", reason: "TopologyAwareSchedulingDisabled", generation: 2,
			want: grove.Levels{Reason: nvidiav1beta1.ReasonTopologyLevelsUnavailable, Message: "Grove: TopologyAwareSchedulingDisabled: words; pods placed from now on are not constrained"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pcs := &grove.PodCliqueSet{}
			pcs.Generation = 2
			if c.status != "" {
				pcs.Status.Conditions = []metav1.Condition{{Type: "TopologyLevelsUnavailable", Status: c.status, Reason: c.reason, Message: "words", ObservedGeneration: c.generation}}
			}
			got, judged := grove.TopologyLevels(pcs)
			if diff := cmp.Diff(c.want, got); diff != "" || judged == c.silent {
				t.Errorf("judged %v (-want +got):\n%s", judged, diff)
			}
		})
	}
}

func TestServices(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  services:
    Deep: {componentType: worker, replicas: 2, multinode: {nodeCount: 2}}
    Flat: {componentType: worker, replicas: 3}`)
	g := providertest.Grove(t, dgd)
	deep, flat := g.Groups[0], g.Groups[1]
	clique := func(ready, scheduled, gated int32, observed int64) *grove.PodClique {
		c := &grove.PodClique{Status: grove.PodCliqueStatus{
			ObservedGeneration: ptr.To(observed), Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: ready, ScheduledReplicas: scheduled, ScheduleGatedReplicas: gated,
		}}
		c.Name, c.Generation = "g-0-flat", 4
		if scheduled < 3 {
			c.Status.Conditions = []metav1.Condition{{Type: "PodCliqueScheduled", Status: "False", Message: "too few"}}
		}
		return c
	}
	group := &grove.PodCliqueScalingGroup{Status: grove.PodCliqueScalingGroupStatus{ObservedGeneration: ptr.To[int64](1), Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1, ScheduledReplicas: 2}}
	cases := map[string]struct {
		got     grove.Component
		done    bool
		waiting string
	}{
		"not made":            {grove.SingleNode(g, flat, nil), false, "Grove has not created PodClique g-0-flat yet"},
		"all ready":           {grove.SingleNode(g, flat, clique(3, 3, 0, 4)), true, ""},
		"an earlier template": {grove.SingleNode(g, flat, clique(3, 3, 0, 3)), false, ""},
		"gated":               {grove.SingleNode(g, flat, clique(0, 1, 2, 4)), false, "PodClique g-0-flat: 1 of 3 replicas scheduled: too few (2 wait for their gang)"},
		"group not made":      {grove.Multinode(g, deep, nil), false, "Grove has not created PodCliqueScalingGroup g-0-deep yet"},
		"group starting":      {grove.Multinode(g, deep, group), false, ""},
	}
	for name, c := range cases {
		if c.got.Done != c.done || c.got.Waiting != c.waiting {
			t.Errorf("%s: done %v, waiting %q; want %v, %q", name, c.got.Done, c.got.Waiting, c.done, c.waiting)
		}
	}
	var scales []string
	for _, s := range grove.Scales(g) {
		scales = append(scales, fmt.Sprint(s.Kind.Kind, " ", s.UsualName(), ": ", s.Replicas))
	}
	if diff := cmp.Diff([]string{"PodCliqueScalingGroup g-0-deep: 2", "PodClique g-0-flat: 3"}, scales); diff != "" {
		t.Errorf("scales (-want +got):\n%s", diff)
	}
}

func TestRefusal(t *testing.T) {
	pcs := &grove.PodCliqueSet{}
	if got := grove.Refusal(pcs); got != "" {
		t.Errorf("nothing wrong: %q", got)
	}
	pcs.Status.LastErrors = []grove.LastError{{Code: "ERR_X", Description: strings.Repeat("long ", 1000)}}
	if got := grove.Refusal(pcs); !strings.HasPrefix(got, "Grove: ERR_X: long") || len(got) > 512 {
		t.Errorf("%d characters: %q", len(got), got)
	}
}

// TestRefused: Grove only counts; why nothing is scheduled stands on the pods.
func TestRefused(t *testing.T) {
	pod := func(message string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "kai-scheduler"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}}
		if change != nil {
			change(p)
		}
		return p
	}
	cases := map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"no pods":      {},
		"one word":     {[]*corev1.Pod{pod("OverLimit", nil)}, "KAI: OverLimit"},
		"of most pods": {[]*corev1.Pod{pod("a", nil), pod("b", nil), pod("b", nil)}, "KAI: b"},
		"as many":      {[]*corev1.Pod{pod("b", nil), pod("a", nil)}, "KAI: a"},
		"stale":        {[]*corev1.Pod{pod(`Pod references subgroup "x", which does not exist in PodGroup ns/g`, nil)}, ""},
		"gated, bound, leaving or with capacity being made": {[]*corev1.Pod{
			pod("w", func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "grove.io/podgang-pending-creation"}}
			}),
			pod("x", func(p *corev1.Pod) { p.Spec.NodeName = "n" }),
			pod("y", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
			pod("z", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" }),
		}, ""},
		"the default scheduler": {[]*corev1.Pod{pod("0/4 nodes", func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" })}, "the kube-scheduler: 0/4 nodes"},
		"another":               {[]*corev1.Pod{pod("no", func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano" })}, "volcano: no"},
	}
	for name, c := range cases {
		if got := grove.Refused(c.pods); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
