// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

const levelsAvailable = nvidiav1alpha1.ConditionTopologyLevelsAvailable

// TestGroveLosesTheTopology plays a topology that is there for Trellis and gone for Grove: never available, until Grove says that it is.
func TestGroveLosesTheTopology(t *testing.T) {
	w := newWorld(t, "loses")
	w.deploy(specs.Grove.Name, "zone", "", services{"Worker": worker(1, 2, 8, "rack")})
	w.set(groveZoneRacks1)
	w.is(levelsAvailable, yes, "AllTopologyLevelsAvailable")
	w.groveServes()
	w.serves()
	for _, c := range []struct{ status, reason, want string }{
		{"Unknown", "ClusterTopologyNotFound", "TopologyDefinitionNotFound"},
		{"Unknown", "TopologyAwareSchedulingDisabled", "TopologyLevelsUnavailable"},
		{"True", "ClusterTopologyLevelsUnavailable", "TopologyLevelsUnavailable"},
		{"Unknown", "ClusterTopologyNotFound", "TopologyDefinitionNotFound"},
	} {
		w.groveSays(c.status, c.reason, false)
		w.is(levelsAvailable, no, c.want, "Grove: "+c.reason+": in Grove's words; pods placed from now on are not constrained")
		w.is(placed, no, c.want)
	}
	w.event("TopologyDefinitionNotFound", "Grove: ClusterTopologyNotFound")

	t.Log("the set is changed meanwhile, and Grove has not looked at it: its word stands")
	before := meta.FindStatusCondition(w.dgd().Status.Conditions, levelsAvailable)
	w.scale("Worker", 2)
	w.groveWants("worker", 2)
	w.until("the status is of the change", func() error {
		if dgd := w.dgd(); dgd.Status.ObservedGeneration != dgd.Generation {
			return errors.New("it is not")
		}
		return nil
	})
	if now := meta.FindStatusCondition(w.dgd().Status.Conditions, levelsAvailable); now.Status != no || !now.LastTransitionTime.Equal(&before.LastTransitionTime) {
		t.Errorf("it was available in between: %+v", now)
	}
	w.groveServes()
	w.is(levelsAvailable, yes, "AllTopologyLevelsAvailable")
	w.serves()
}

// restart waits until the deployment's restart is this far.
func (w *world) restart(want string) {
	w.t.Helper()
	w.until("the restart is "+want, func() error {
		r := w.dgd().Status.Restart
		if r == nil {
			return errors.New("there is none")
		}
		if got := strings.TrimSpace(fmt.Sprintf("%s %s %s", r.ObservedID, r.Phase, strings.Join(r.InProgress, ","))); got != want {
			return errors.New("it is " + got)
		}
		return nil
	})
}

// restarts are the ids that the cliques of the set carry.
func (w *world) restarts() string {
	w.t.Helper()
	pcs, _ := w.podCliqueSet()
	var out []string
	for _, clique := range pcs.Spec.Template.Cliques {
		out = append(out, clique.Name+":"+clique.Annotations[graph.AnnotationRestart])
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (w *world) expectRestarts(want string) {
	w.t.Helper()
	w.until("the cliques restart for "+want, func() error {
		if got := w.restarts(); got != want {
			return errors.New("they restart for " + got)
		}
		return nil
	})
}

// TestGroveRestarts plays a restart under Grove: as an annotation of the cliques, one service after the other, until Grove has done it.
func TestGroveRestarts(t *testing.T) {
	w := newWorld(t, "restarts")
	w.deploy(specs.Grove.Name, "zone", "", services{"Decode": worker(2, 2, 8, "rack"), "Frontend": frontend(1)})
	w.set(strings.ReplaceAll(groveZoneRacks2, "worker", "decode") + "\n  frontend 1 (least 1)")
	w.groveServes()
	w.serves()

	t.Log("one after the other")
	w.patch(`{"spec":{"restart":{"id":"one"}}}`)
	w.expectRestarts("decode-ldr:one decode-wkr:one frontend:")
	w.restart("one Restarting Decode")
	w.groveSays("False", "AllClusterTopologyLevelsAvailable", true)
	w.is(nvidiav1alpha1.ConditionRolledOut, no, "RollingOut", "Decode: 2 of 2 replicas are of the current revision")
	w.expectRestarts("decode-ldr:one decode-wkr:one frontend:")
	w.groveServes()
	w.expectRestarts("decode-ldr:one decode-wkr:one frontend:one")
	w.restart("one Restarting Frontend")
	w.groveServes()
	w.restart("one Completed")
	w.serves()

	t.Log("all at once: nothing stops")
	w.patch(`{"spec":{"restart":{"id":"two","strategy":{"type":"Parallel"}}}}`)
	w.expectRestarts("decode-ldr:two decode-wkr:two frontend:two")
	w.restart("two Restarting Decode,Frontend")
	w.groveWants("decode", 2)
	w.groveWants("frontend", 1)
	w.groveSays("False", "AllClusterTopologyLevelsAvailable", true)
	w.groveCounts("", func(_ string, wanted int64) (int64, int64, int64) { return wanted - 1, wanted, wanted })
	w.restart("two Restarting Decode,Frontend")
	w.groveServes()
	w.restart("two Completed")

	t.Log("over is over, when it is withdrawn too")
	w.patch(`{"spec":{"restart":null}}`)
	w.until("the status is of the change", func() error {
		if dgd := w.dgd(); dgd.Status.ObservedGeneration != dgd.Generation {
			return errors.New("it is not")
		}
		return nil
	})
	w.expectRestarts("decode-ldr:two decode-wkr:two frontend:two")
	w.restart("two Completed")
}

// inSync waits for the word on the peers' topology objects at the world's ClusterTopology.
func (w *world) inSync(status metav1.ConditionStatus, parts ...string) {
	w.t.Helper()
	w.until(fmt.Sprintf("the topologies are in sync: %s with %q", status, parts), func() error {
		ct := &grovev1alpha1.ClusterTopology{}
		if err := typed.Get(w.t.Context(), ctrlclient.ObjectKey{Name: w.name}, ct); err != nil {
			return err
		}
		c := meta.FindStatusCondition(ct.Status.Conditions, grovev1alpha1.ConditionSchedulersInSync)
		if c == nil || c.Status != status || slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c.Message, part) }) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// change writes an object as somebody else.
func (w *world) change(object *unstructured.Unstructured, do func(o *unstructured.Unstructured)) *unstructured.Unstructured {
	w.t.Helper()
	object = object.DeepCopy()
	do(object)
	changed, err := resourceOf(object).Update(w.t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return changed
}

// TestOthersChangeTheBinding: what is Trellis' is put right as soon as it is changed; what is not is left alone, and reported.
func TestOthersChangeTheBinding(t *testing.T) {
	const levels = "zone=example.com/zone > rack=example.com/rack > host=kubernetes.io/hostname"
	w := newWorld(t, "bindings")
	w.deploy(specs.Grove.Name, "zone", "", services{"Worker": worker(1, 2, 8, "rack")})
	binding := w.binding(levels)
	w.inSync(yes, "Grove")
	cut := func(o *unstructured.Unstructured) {
		spec := o.Object["spec"].(map[string]any)
		spec["levels"] = spec["levels"].([]any)[:1]
	}

	t.Log("changed: put right in place")
	w.change(binding, cut)
	if again := w.binding(levels); again.GetUID() != binding.GetUID() {
		t.Error("it was recreated")
	}

	t.Log("deleted: recreated")
	if err := resourceOf(binding).Delete(t.Context(), w.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	binding = w.binding(levels)

	t.Log("another's: left alone, and reported; put right by them, reported too")
	foreign := w.change(binding, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil); cut(o) })
	w.inSync(no, `Grove: ClusterTopologyBinding "bindings" has levels [zone=example.com/zone], ClusterTopology "bindings" has [`+levels+`]`, "left alone")
	if now := w.binding("zone=example.com/zone"); now.GetResourceVersion() != foreign.GetResourceVersion() {
		t.Error("another's binding was written")
	}
	w.change(foreign, func(o *unstructured.Unstructured) {
		var all []any
		for _, level := range read[grove.ClusterTopologyBinding](t, binding).Spec.Levels {
			all = append(all, map[string]any{"domain": level.Domain, "key": level.Key})
		}
		o.Object["spec"].(map[string]any)["levels"] = all
	})
	w.inSync(yes, "Grove")
}

// TestOthersChangeTheTopologyOfKAI is the same for KAI's Topology, whose levels cannot be changed: it can be deleted, or be another's.
func TestOthersChangeTheTopologyOfKAI(t *testing.T) {
	const levels = "example.com/zone > example.com/rack > kubernetes.io/hostname"
	w := newWorld(t, "topologies", racks(2, 8, "a/r0")...)
	w.deploy(specs.KAI.Name, "zone", "", services{"Worker": worker(1, 2, 8, "rack")})
	w.topologyOfKAI(levels)
	w.inSync(yes, "KAI")
	resource := client.Resource(resources["Topology"])
	if err := resource.Delete(t.Context(), w.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.topologyOfKAI(levels)
	object, err := resource.Get(t.Context(), w.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	t.Log("another's, which says the same: no matter; then it says something else")
	w.change(object, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })
	w.inSync(yes, "KAI")
	w.withoutRacks()
	w.inSync(no, `KAI: Topology "topologies" has levels [`+levels+`]`, "left alone")
	w.topologyOfKAI(levels)
}

// TestConstraintsByAnnotation: the annotations of KAI mean the same constraint under every provider.
func TestConstraintsByAnnotation(t *testing.T) {
	for provider, want := range map[string]string{
		specs.KAI.Name:   "g needs 1 in one zone, rack first\n  g-worker-all pods 1",
		specs.Grove.Name: "g in one zone, rack first\n  worker 2 (least 1)",
	} {
		t.Run(provider, func(t *testing.T) {
			w := newWorld(t, "by-"+strings.ToLower(provider), racks(2, 8, "a/r0", "a/r1")...)
			made(t, &nvidiav1alpha1.DynamoGraphDeployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name, Annotations: map[string]string{
					graph.AnnotationProvider: provider, constraint.AnnotationTopology: w.name, constraint.AnnotationRequired: zoneKey, constraint.AnnotationPreferred: rackKey,
				}},
				Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: services{"Worker": worker(2, 1, 8, "")}},
			})
			if provider == specs.Grove.Name {
				w.set(want)
				w.binding("zone=example.com/zone > rack=example.com/rack > host=kubernetes.io/hostname")
				return
			}
			w.tree(want)
			w.in("Worker", 0, 1, "a/r0")
			w.in("Worker", 1, 1, "a/r0")
			w.topologyOfKAI("example.com/zone > example.com/rack > kubernetes.io/hostname")
		})
	}
}
