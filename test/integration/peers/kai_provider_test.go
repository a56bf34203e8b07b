// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/kai/placer"
	"github.com/trellis-k8s/trellis/internal/provider/providertest"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// pods of a replica as the scaling group controller makes them.
func (s scenario) pods(t *testing.T, p provider.Placer, group int, ordinal int32) []*corev1.Pod {
	t.Helper()
	sg := s.groups[group]
	var pods []*corev1.Pod
	for index := range graph.PodsPerReplica(sg) {
		pods = append(pods, graph.BuildPod(sg, ordinal, index))
	}
	p.Prepare(sg, ordinal, pods, nil)
	for _, pod := range pods {
		made(t, pod)
	}
	if !p.Kept(pods) {
		t.Fatal("the API server does not keep what the placer makes of pods")
	}
	return pods
}

func (s scenario) gang(replicas ...gang.Member) gang.Members {
	return gang.Members{Name: s.dgd.Name, Graph: s.dgd, Groups: s.groups, Replicas: replicas}
}

func podGroup(t *testing.T, name string) (*kai.PodGroup, *unstructured.Unstructured) {
	t.Helper()
	object, err := client.Resource(resources["PodGroup"]).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return read[kai.PodGroup](t, object), object
}

// TestKAIFormsGangs: what is released is listed, together with what was released before or at the same time, and what is gone is not.
func TestKAIFormsGangs(t *testing.T) {
	s, p := newScenario(t, "forms", specs.KAI.Name), placer.New(typed, typed)
	decode, frontend := s.groups[0], s.groups[1]
	base := []gang.Member{{Group: decode, Ordinal: 0, Pods: s.pods(t, p, 0, 0)}, {Group: frontend, Ordinal: 0, Pods: s.pods(t, p, 1, 0)}}
	later := gang.Member{Group: decode, Ordinal: 1, Pods: s.pods(t, p, 0, 1)}

	form := func(gang gang.Members) string {
		t.Helper()
		if err := p.Form(t.Context(), gang); err != nil {
			t.Fatal(err)
		}
		pg, _ := podGroup(t, "forms")
		return providertest.SketchKAI(pg)
	}
	t.Log("the base gang")
	want := `forms needs 2 in one zone, block first
  forms-decode-all needs 1
    forms-decode-0 pods 3 in one block, rack first
  forms-frontend-all pods 1
`
	if diff := cmp.Diff(want, form(s.gang(base...))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	t.Log("again: nothing is written")
	_, before := podGroup(t, "forms")
	form(s.gang(base...))
	if _, after := podGroup(t, "forms"); after.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("it was written though nothing changed")
	}

	t.Log("another replica, while the first one's gates are still closed")
	both := strings.Replace(want, "  forms-frontend", "    forms-decode-1 pods 3 in one block, rack first\n  forms-frontend", 1)
	if diff := cmp.Diff(both, form(s.gang(later))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	t.Log("the first replica is lost; it leaves the list")
	for _, pod := range base[0].Pods {
		if err := typed.Delete(t.Context(), pod, ctrlclient.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	trim := func(pods ...*corev1.Pod) string {
		t.Helper()
		if err := p.Trim(t.Context(), typed, s.gang(), pods); err != nil {
			t.Fatal(err)
		}
		pg, _ := podGroup(t, "forms")
		return providertest.SketchKAI(pg)
	}
	if diff := cmp.Diff(both, trim(slices.Concat(base[0].Pods, base[1].Pods, later.Pods)...)); diff != "" {
		t.Errorf("nothing is lost yet (-want +got):\n%s", diff)
	}
	if got := trim(slices.Concat(base[1].Pods, later.Pods)...); strings.Contains(got, "forms-decode-0") || !strings.Contains(got, "forms-decode-1") || !strings.Contains(got, "frontend") {
		t.Errorf("KAI would call the lost replica stale:\n%s", got)
	}
	if got := form(s.gang(later)); strings.Contains(got, "forms-decode-0") || !strings.Contains(got, "forms-decode-1") {
		t.Errorf("got\n%s", got)
	}

	t.Log("one of ours without an owner is adopted, unless the deployment is gone; one of somebody else is left alone")
	setOwners := func(owners ...metav1.OwnerReference) {
		t.Helper()
		_, object := podGroup(t, "forms")
		object.SetOwnerReferences(owners)
		if _, err := resourceOf(object).Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	setOwners()
	gone := s.gang(base[1])
	gone.Graph = gone.Graph.DeepCopy()
	gone.Graph.UID = "another"
	if err := p.Form(t.Context(), gone); err == nil || !strings.Contains(err.Error(), "is not adopted: forms is gone or being deleted") {
		t.Errorf("it was adopted for a deployment that is gone: %v", err)
	}
	form(s.gang(base[1]))
	if _, object := podGroup(t, "forms"); !metav1.IsControlledBy(object, s.dgd) {
		t.Errorf("not adopted: %v", object.GetOwnerReferences())
	}
	setOwners()
	adopter := adoption.Adopter{Client: typed, Live: typed, Owner: s.dgd, Kind: nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment")}
	for range 2 {
		if err := p.Adopt(t.Context(), adopter); err != nil {
			t.Fatal(err)
		}
	}
	pg, object := podGroup(t, "forms")
	if !metav1.IsControlledBy(object, s.dgd) || len(object.GetOwnerReferences()) != 1 {
		t.Errorf("not adopted: %v", object.GetOwnerReferences())
	}
	setOwners(metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "somebodys", UID: "1", Controller: ptr.To(true)})
	if err := p.Form(t.Context(), s.gang(base[1])); err == nil || !strings.Contains(err.Error(), "left alone") {
		t.Errorf("%s was taken over: %v", pg.Name, err)
	}
}

// TestKAIObjects: the user hears KAI's words about what waits now, not about what waited earlier.
func TestKAIObjects(t *testing.T) {
	s, p := newScenario(t, "objects", specs.KAI.Name), placer.New(typed, typed)
	pods := s.pods(t, p, 1, 0)
	if err := p.Form(t.Context(), s.gang(gang.Member{Group: s.groups[1], Pods: pods})); err != nil {
		t.Fatal(err)
	}
	if err := p.Release(t.Context(), pods[0], gang.Pin{Graph: s.dgd.Name, Gang: "gang"}); err != nil {
		t.Fatal(err)
	}
	if err := typed.Get(t.Context(), ctrlclient.ObjectKeyFromObject(pods[0]), pods[0]); err != nil {
		t.Fatal(err)
	}
	says := func(since string) string {
		_, object := podGroup(t, "objects")
		status(t, object, `
  schedulingConditions: [{type: UnschedulableOnNodePool, status: "True", reason: Unschedulable, message: Unable to schedule podgroup, lastTransitionTime: "`+since+`",
    reasons: [{reason: OverLimit, message: the queue is full}]}]`)
		objection := p.Objections(t.Context(), typed, pods, pods)[pods[0].UID]
		if objection.Message != "" && !objection.Anywhere {
			t.Errorf("another place would not help: %+v", objection)
		}
		return objection.Message
	}
	if got := says("2020-01-01T00:00:00Z"); got != "" {
		t.Errorf("an earlier word counts: %q", got)
	}
	if got := says("2099-01-01T00:00:00Z"); got != "KAI: the queue is full" {
		t.Errorf("got %q", got)
	}
	if got := p.Objections(t.Context(), nil, pods, pods); len(got) > 0 {
		t.Errorf("not watched: %+v", got)
	}
	pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no node"}}
	if got := p.Objections(t.Context(), nil, pods, pods)[pods[0].UID].Message; got != "KAI: no node" {
		t.Errorf("on the pod alone: %q", got)
	}
	pods[0].Status.NominatedNodeName = "n"
	if got := p.Objections(t.Context(), typed, pods, pods); len(got) > 0 {
		t.Errorf("capacity is being made for it: %+v", got)
	}
}

func TestKAIProbe(t *testing.T) {
	state, err := placer.New(typed, typed).Probe(t.Context())
	if err != nil || !state.Ready {
		t.Errorf("served: %+v %v", state, err)
	}
	empty := fake.NewClientBuilder().WithScheme(operator.NewScheme()).Build()
	state, err = placer.New(empty, empty).Probe(t.Context())
	if err != nil || state.Ready || state.Reason != nvidiav1alpha1.ReasonAPINotServed || !strings.Contains(state.Message, "install KAI") {
		t.Errorf("not served: %+v %v", state, err)
	}
	older, err := definition("kai/scheduling.run.ai_podgroups.yaml")
	if err != nil {
		t.Fatal(err)
	}
	delete(older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "minSubGroup")
	reader := fake.NewClientBuilder().WithScheme(operator.NewScheme()).WithObjects(older).Build()
	state, err = placer.New(reader, reader).Probe(t.Context())
	if err != nil || state.Ready || state.Reason != nvidiav1alpha1.ReasonFieldsDropped {
		t.Errorf("older: %+v %v", state, err)
	}
}

// TestKAIKeepsTopologies: made, replaced when levels change, and left alone when they are another's.
func TestKAIKeepsTopologies(t *testing.T) {
	k := newKeeping(t, "kept", "Topology", placer.New(typed, typed).KeepTopology)
	if why := k.keep(); why != "" {
		t.Fatal(why)
	}
	first := k.get()
	if why := k.keep(); why != "" || k.get().GetResourceVersion() != first.GetResourceVersion() {
		t.Errorf("written again: %s", why)
	}
	k.ct.Spec.Levels = slices.Delete(k.ct.Spec.Levels, 1, 2)
	if why := k.keep(); why != "" || k.get().GetUID() == first.GetUID() || len(read[kai.Topology](t, k.get()).Spec.Levels) != 3 {
		t.Errorf("levels changed: %s", why)
	}
	k.disown()
	k.ct.Spec.Levels = k.ct.Spec.Levels[1:]
	before := k.get().GetResourceVersion()
	if why := k.keep(); !strings.Contains(why, "left alone") || k.get().GetResourceVersion() != before {
		t.Errorf("another's: %q", why)
	}
	k.ct.Spec.SchedulerTopologyReferences = []grovev1alpha1.SchedulerTopologyReference{{SchedulerName: kai.SchedulerName, TopologyReference: "site"}}
	if why := k.keep(); !strings.Contains(why, `KAI has no Topology "site"`) {
		t.Errorf("referenced and absent: %q", why)
	}
}
