// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const levelsAvailable = nvidiav1alpha1.ConditionTopologyLevelsAvailable

// restart waits until the deployment's restart is this far.
func (w *world) restart(want string) {
	GinkgoHelper()
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
	GinkgoHelper()
	pcs, _ := w.podCliqueSet()
	var out []string
	for _, clique := range pcs.Spec.Template.Cliques {
		out = append(out, clique.Name+":"+clique.Annotations[render.AnnotationRestart])
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (w *world) expectRestarts(want string) {
	GinkgoHelper()
	w.until("the cliques restart for "+want, func() error {
		if got := w.restarts(); got != want {
			return errors.New("they restart for " + got)
		}
		return nil
	})
}

// inSync waits for the word on the peers' topology objects at the world's ClusterTopology.
func (w *world) inSync(status metav1.ConditionStatus, parts ...string) {
	GinkgoHelper()
	w.until(fmt.Sprintf("the topologies are in sync: %s with %q", status, parts), func() error {
		ct := &grovev1alpha1.ClusterTopology{}
		if err := typed.Get(w.ctx, ctrlclient.ObjectKey{Name: w.name}, ct); err != nil {
			return err
		}
		c := meta.FindStatusCondition(ct.Status.Conditions, grovev1alpha1.ConditionSchedulersInSync)
		if c == nil || c.Status != status || slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c.Message, part) }) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// change writes an object as another client.
func (w *world) change(object *unstructured.Unstructured, do func(o *unstructured.Unstructured)) *unstructured.Unstructured {
	GinkgoHelper()
	object = object.DeepCopy()
	do(object)
	changed, err := resourceOf(object).Update(w.ctx, object, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return changed
}

// annotated is a world with a deployment that is constrained by annotations, those of KAI.
func annotated(ctx context.Context, provider string) *world {
	GinkgoHelper()
	w := newWorld(ctx, "by-"+strings.ToLower(provider), racks(2, 8, "a/r0", "a/r1")...)
	made(ctx, &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name, Annotations: map[string]string{
			render.AnnotationProvider: provider, constraint.AnnotationTopology: w.name, constraint.AnnotationRequired: zoneKey, constraint.AnnotationPreferred: rackKey,
		}},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: components{"Worker": worker(2, 1, 8, "")}},
	})
	DeferOnFailure(w.describe)
	return w
}

var _ = Describe("A deployment under Grove", labelGrove, func() {
	It("reports that Grove has lost its topology until Grove says that it is back", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx, "loses")
		w.deploy(specs.Grove.Name, "zone", "", components{"Worker": worker(1, 2, 8, "rack")})
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

		By("the set is changed meanwhile, and Grove has not looked at it: its word stands")
		before := meta.FindStatusCondition(w.dgd().Status.Conditions, levelsAvailable)
		w.scale("Worker", 2)
		w.groveWants("worker", 2)
		w.isObserved()
		now := meta.FindStatusCondition(w.dgd().Status.Conditions, levelsAvailable)
		Expect(now.Status).To(Equal(no))
		Expect(now.LastTransitionTime.Time).To(BeTemporally("==", before.LastTransitionTime.Time), "it was available in between: %+v", now)
		w.groveServes()
		w.is(levelsAvailable, yes, "AllTopologyLevelsAvailable")
		w.serves()
	})

	It("restarts by annotations of the cliques, one service after the other or all at once", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx, "restarts")
		w.deploy(specs.Grove.Name, "zone", "", components{"Decode": worker(2, 2, 8, "rack"), "Frontend": frontend(1)})
		w.set(strings.ReplaceAll(groveZoneRacks2, "worker", "decode") + "\n  frontend 1 (least 1)")
		w.groveServes()
		w.serves()

		By("one after the other")
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

		By("all at once: nothing stops")
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

		By("over is over, when it is withdrawn too")
		w.patch(`{"spec":{"restart":null}}`)
		w.isObserved()
		w.expectRestarts("decode-ldr:two decode-wkr:two frontend:two")
		w.restart("two Completed")
	})
})

var _ = Describe("The topology objects of the peers", func() {
	It("of Grove are corrected, recreated, and left alone and reported when they are another's", labelGrove, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		const levels = "zone=example.com/zone > rack=example.com/rack > host=kubernetes.io/hostname"
		w := newWorld(ctx, "bindings")
		w.deploy(specs.Grove.Name, "zone", "", components{"Worker": worker(1, 2, 8, "rack")})
		binding := w.binding(levels)
		w.inSync(yes, "Grove")
		cut := func(o *unstructured.Unstructured) {
			spec := o.Object["spec"].(map[string]any)
			spec["levels"] = spec["levels"].([]any)[:1]
		}

		By("changed: put right in place")
		w.change(binding, cut)
		Expect(w.binding(levels).GetUID()).To(Equal(binding.GetUID()), "it was recreated")

		By("deleted: recreated")
		Expect(resourceOf(binding).Delete(ctx, w.name, metav1.DeleteOptions{})).To(Succeed())
		binding = w.binding(levels)

		By("another's: left alone, and reported; put right by them, reported too")
		foreign := w.change(binding, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil); cut(o) })
		w.inSync(no, `Grove: ClusterTopologyBinding "bindings" has levels [zone=example.com/zone], ClusterTopology "bindings" has [`+levels+`]`, "left unchanged")
		Expect(w.binding("zone=example.com/zone").GetResourceVersion()).To(Equal(foreign.GetResourceVersion()), "another's binding was written")
		w.change(foreign, func(o *unstructured.Unstructured) {
			var all []any
			for _, level := range read[topologybinding.Binding](binding).Spec.Levels {
				all = append(all, map[string]any{"domain": level.Domain, "key": level.Key})
			}
			o.Object["spec"].(map[string]any)["levels"] = all
		})
		w.inSync(yes, "Grove")
	})

	It("of KAI are recreated, and left alone and reported when they are another's and differ", labelKAI, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		const levels = "example.com/zone > example.com/rack > kubernetes.io/hostname"
		w := newWorld(ctx, "topologies", racks(2, 8, "a/r0")...)
		w.deploy(specs.KAI.Name, "zone", "", components{"Worker": worker(1, 2, 8, "rack")})
		w.topologyOfKAI(levels)
		w.inSync(yes, "KAI")
		resource := client.Resource(resources["Topology"])
		Expect(resource.Delete(ctx, w.name, metav1.DeleteOptions{})).To(Succeed())
		w.topologyOfKAI(levels)
		object, err := resource.Get(ctx, w.name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())

		By("another's, which says the same: no matter; then it says something else")
		w.change(object, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })
		w.inSync(yes, "KAI")
		w.withoutRacks()
		w.inSync(no, `KAI: Topology "topologies" has levels [`+levels+`]`, "left unchanged")
		w.topologyOfKAI(levels)
	})
})

var _ = Describe("A constraint by KAI's annotations", func() {
	It("means the same under KAI", labelKAI, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := annotated(ctx, specs.KAI.Name)
		w.tree("g needs 1 in one zone, rack first\n  g-worker-all pods 1")
		w.in("Worker", 0, 1, "a/r0")
		w.in("Worker", 1, 1, "a/r0")
		w.topologyOfKAI("example.com/zone > example.com/rack > kubernetes.io/hostname")
	})

	It("means the same under Grove", labelGrove, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := annotated(ctx, specs.Grove.Name)
		w.set("g in one zone, rack first\n  worker 2 (least 1)")
		w.binding("zone=example.com/zone > rack=example.com/rack > host=kubernetes.io/hostname")
	})
})
