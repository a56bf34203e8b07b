// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/providertest"
)

// apply writes as the operator does: server-side, as one field owner.
func apply(t *testing.T, object *unstructured.Unstructured, owner string) *unstructured.Unstructured {
	t.Helper()
	applied, err := resourceOf(object).Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: owner, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// TestKAIIsNewEnough: the definition of today has all that is used; one without it is reported.
func TestKAIIsNewEnough(t *testing.T) {
	crd, err := definition("kai/scheduling.run.ai_podgroups.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if why := kai.Served(crd); why != "" {
		t.Error(why)
	}
	older := crd.DeepCopy()
	delete(older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "minSubGroup")
	if why := kai.Served(older); !strings.Contains(why, "has no minSubGroup; KAI 0.15 or newer") {
		t.Errorf("without minSubGroup: %q", why)
	}
	older = crd.DeepCopy()
	delete(older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["subGroups"].Items.Schema.Properties, "parent")
	if why := kai.Served(older); !strings.Contains(why, "has no parent") {
		t.Errorf("without parent: %q", why)
	}
	older.Spec.Versions[0].Served = false
	if why := kai.Served(older); !strings.Contains(why, "not served in version v2alpha2") {
		t.Errorf("not served: %q", why)
	}
}

// TestKAITopology: levels cannot be changed in place, which is why a change replaces the object.
func TestKAITopology(t *testing.T) {
	ct := providertest.Topology()
	topology, err := kai.RenderTopology(ct)
	if err != nil {
		t.Fatal(err)
	}
	created := accepted(t, sent(t, topology, ""))
	if step, why := kai.CompareTopology(ct, read[kai.Topology](t, created)); step != kai.InSync {
		t.Errorf("just written: %s, %s", step, why)
	}
	ct.Spec.Levels = ct.Spec.Levels[1:]
	if step, _ := kai.CompareTopology(ct, read[kai.Topology](t, created)); step != kai.Replace {
		t.Errorf("levels changed: %s", step)
	}
	shorter, err := kai.RenderTopology(ct)
	if err != nil {
		t.Fatal(err)
	}
	object := sent(t, shorter, "")
	if _, err := resourceOf(object).Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "x", Force: true}); err == nil {
		t.Error("levels were changed in place")
	}
	hostFirst := providertest.Topology()
	hostFirst.Spec.Levels[0], hostFirst.Spec.Levels[3] = hostFirst.Spec.Levels[3], hostFirst.Spec.Levels[0]
	for i := range topology.Spec.Levels {
		topology.Spec.Levels[i].NodeLabel = hostFirst.Spec.Levels[i].Key
	}
	topology.Name = "host-first"
	refused(t, sent(t, topology, ""), "spec.levels")
}

// TestPodGroups: taken whole; a second write of the same says nothing new; what KAI and others set in between stays.
func TestPodGroups(t *testing.T) {
	g := providertest.KAI(t, deployment(t, "members"))
	want := kai.RenderPodGroup(g)
	object := accepted(t, sent(t, want, ""))
	apply(t, sent(t, want, ""), "trellis")

	foreign := object.DeepCopy()
	foreign.SetManagedFields(nil)
	foreign.Object["spec"] = map[string]any{"markUnschedulable": true, "schedulingBackoff": int64(1), "queue": "moved"}
	foreign.SetAnnotations(map[string]string{"kai.scheduler/last-start-timestamp": "2026-01-01T00:00:00Z"})
	foreign.SetLabels(map[string]string{"kai.scheduler/node-pool": "gpus"})
	foreign.SetResourceVersion("")
	foreign.SetUID("")
	touched := apply(t, foreign, "kai")

	again := kai.RenderPodGroup(g)
	kai.Keep(again, read[kai.PodGroup](t, touched))
	wanted := sent(t, again, "")
	if at := external.Missing(wanted, touched); at != "metadata.labels.kai.scheduler/queue" {
		t.Errorf("%q differs, want only the label of the queue to follow", at)
	}
	after := apply(t, wanted, "trellis")
	for path, value := range map[string]any{"markUnschedulable": true, "schedulingBackoff": int64(1), "queue": "moved"} {
		if got := after.Object["spec"].(map[string]any)[path]; got != value {
			t.Errorf("spec.%s is %v, want %v", path, got, value)
		}
	}
	if after.GetAnnotations()["kai.scheduler/last-start-timestamp"] == "" || after.GetLabels()["kai.scheduler/node-pool"] != "gpus" {
		t.Errorf("KAI's marks are gone: %v %v", after.GetAnnotations(), after.GetLabels())
	}
	if !external.Covers(wanted, after) {
		t.Errorf("%s still differs: it would be written for ever", external.Missing(wanted, after))
	}
}

// TestPodGroupGrows: another replica is released, and the tree has one leaf more; KAI's status says why it waits.
func TestPodGroupGrows(t *testing.T) {
	g := providertest.KAI(t, deployment(t, "grows"))
	released := map[int32]bool{0: true}
	g.Released = func(sg *trellisv1alpha1.ScalingGroup, ordinal int32) bool {
		return !sg.Spec.Multinode || released[ordinal]
	}
	first := accepted(t, sent(t, kai.RenderPodGroup(g), ""))
	apply(t, sent(t, kai.RenderPodGroup(g), ""), "trellis")
	released[1] = true
	grown := apply(t, sent(t, kai.RenderPodGroup(g), ""), "trellis")
	before, after := read[kai.PodGroup](t, first), read[kai.PodGroup](t, grown)
	if len(after.Spec.SubGroups) != len(before.Spec.SubGroups)+1 || *after.Spec.MinSubGroup != *before.Spec.MinSubGroup {
		t.Errorf("grew from\n%s to\n%s", providertest.SketchKAI(before), providertest.SketchKAI(after))
	}
	waiting := status(t, grown, `
  schedulingConditions:
  - {type: UnschedulableOnNodePool, status: "True", nodePool: default, reason: PodSchedulingErrors, message: short, transitionID: "0", lastTransitionTime: "2026-01-01T00:00:00Z",
     reasons: [{reason: PodSchedulingErrors, message: "node-group z1 can allocate only 3 of 4 required pods"}]}`)
	why, said := kai.WhyWaiting(read[kai.PodGroup](t, waiting))
	if !said || why.Reason != "PodSchedulingErrors" || why.Message != "KAI: node-group z1 can allocate only 3 of 4 required pods" {
		t.Errorf("reads as %+v", why)
	}
}
