// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestMembersFromTheirReleaseOn: KAI reports gated members unschedulable, so a pod becomes a member when its gate opens. Pods made members
// when they were created, as before, stay so.
func TestMembersFromTheirReleaseOn(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
  services:
    Deep: {componentType: worker, replicas: 2, multinode: {nodeCount: 2}}
    Flat: {componentType: worker}`)
	leaves := map[string]string{"Deep": "g-deep-1", "Flat": "g-flat-all"}
	for _, sg := range providertest.Groups(t, dgd, specs.KAI.Name) {
		for _, earlier := range []bool{false, true} {
			pod := render.BuildPod(sg, 1, 0)
			pod.UID = "uid"
			New(nil, nil).Prepare(sg, 1, []*corev1.Pod{pod}, nil)
			if pod.Labels[kai.LabelSubGroup] != "" || pod.Annotations[kai.AnnotationPodGroup] != "" {
				t.Errorf("%s is a member while it is gated: %v %v", pod.Name, pod.Labels, pod.Annotations)
			}
			if pod.Spec.SchedulerName != kai.SchedulerName || pod.Annotations[kai.AnnotationSkipGrouper] != "true" {
				t.Errorf("%s would be grouped by KAI, or scheduled by another: %q %v", pod.Name, pod.Spec.SchedulerName, pod.Annotations)
			}
			if earlier {
				pod.Labels[kai.LabelSubGroup], pod.Annotations[kai.AnnotationPodGroup] = leaves[sg.Spec.Component], "g"
			}
			c := fake.NewClientBuilder().WithObjects(pod).Build()
			p := New(c, c)
			if !p.Kept([]*corev1.Pod{pod}) {
				t.Errorf("%s would be replaced", pod.Name)
			}
			live := &corev1.Pod{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), live); err != nil {
				t.Fatal(err)
			}
			if err := p.Release(t.Context(), live, gang.Pin{Graph: "g", Gang: "g-1", Labels: map[string]string{"zone": "a"}}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), live); err != nil {
				t.Fatal(err)
			}
			if render.GateClosed(live) || live.Labels[kai.LabelSubGroup] != leaves[sg.Spec.Component] || live.Annotations[kai.AnnotationPodGroup] != "g" || live.Annotations[render.AnnotationGang] != "g-1" {
				t.Errorf("%s released as %v %v", live.Name, live.Labels, live.Annotations)
			}
		}
	}
}

// TestPreemptorsArePinnedWide: which rack, and which hosts, KAI finds by the victims it chooses. It knows nothing of pods that are to be apart.
func TestPreemptorsArePinnedWide(t *testing.T) {
	pin := gang.Pin{Graph: "g", Gang: "g-1", Labels: map[string]string{"zone": "a", "rack": "r1"}, Node: "n1", Preempts: true, Wide: map[string]string{"zone": "a"}}
	for _, of := range []struct{ preempts, apart, wide bool }{{preempts: true, wide: true}, {preempts: true, apart: true}, {}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", Labels: map[string]string{render.LabelScalingGroup: "g-deep"}}}
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
		c := fake.NewClientBuilder().WithObjects(pod).Build()
		live := &corev1.Pod{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), live); err != nil {
			t.Fatal(err)
		}
		pin.Preempts, pin.Apart = of.preempts, of.apart
		if err := New(c, c).Release(t.Context(), live, pin); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), live); err != nil {
			t.Fatal(err)
		}
		if rack, host := live.Spec.NodeSelector["rack"], gang.PinnedHost(live); live.Spec.NodeSelector["zone"] != "a" || (rack == "") != of.wide || (host == "") != of.wide {
			t.Errorf("%+v: pinned to %v and host %q", of, live.Spec.NodeSelector, host)
		}
	}
}

// TestFormedPodsAreForgotten: what is remembered of a graph goes with it, and nothing of others.
func TestFormedPodsAreForgotten(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	p := New(c, c)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	formed := func(name string) gang.Members {
		of := gang.Members{Graph: &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}}
		of.Replicas = []gang.Member{{Group: &trellisv1alpha1.ScalingGroup{}, Pods: []*corev1.Pod{pod}}}
		if _, err := p.released(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		return of
	}
	gone, other := formed("gone"), formed("other")
	provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{p}}).Forget(client.ObjectKeyFromObject(gone.Graph))
	if p.isForming(gone, pod) || !p.isForming(other, pod) || len(p.forming.pods) != 1 {
		t.Errorf("remembered are %v", p.forming.pods)
	}
}

// TestObjections: KAI's report on a pod is shown, unless it is about an earlier PodGroup; what another place would not change is marked.
func TestObjections(t *testing.T) {
	for message, want := range map[string]gang.Objection{
		"no nodes": {Message: "KAI: no nodes"},
		`Pod references subgroup "g-0", which does not exist in PodGroup ns/g`:                        {Message: `KAI: Pod references subgroup "g-0", which does not exist in PodGroup ns/g`, Passing: true},
		"Queue 'dynamo' does not exist":                                                               {Message: "KAI: Queue 'dynamo' does not exist", Anywhere: true},
		"team quota has reached the allowable limit of GPUs. Limit is 8 GPUs":                         {Message: "KAI: team quota has reached the allowable limit of GPUs. Limit is 8 GPUs", Anywhere: true},
		"Non-preemptible workload is over quota. Workload requested 8 GPUs, but team quota is 4 GPUs": {Message: "KAI: Non-preemptible workload is over quota. Workload requested 8 GPUs, but team quota is 4 GPUs", Anywhere: true},
	} {
		pod := &corev1.Pod{}
		pod.UID = "uid"
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}}
		if got := New(nil, nil).Objections(t.Context(), nil, []*corev1.Pod{pod}, nil)["uid"]; got != want {
			t.Errorf("%s: %+v, want %+v", message, got, want)
		}
	}
}
