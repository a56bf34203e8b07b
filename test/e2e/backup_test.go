// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// backedUp are the kinds of a backup, owners before what they own.
var backedUp = []schema.GroupVersionKind{
	{Group: "nvidia.com", Version: "v1beta1", Kind: "DynamoGraphDeployment"},
	{Group: "trellis.dev", Version: "v1alpha1", Kind: "ScalingGroup"},
	{Group: "trellis.dev", Version: "v1alpha1", Kind: "GraphPlacement"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "Pod"},
}

var _ = Describe("A restore from a backup", func() {
	// The operator does not run meanwhile. All objects get other UIDs, and the GraphPlacements name the former UID of their deployment.
	It("keeps every pod, and the records are corrected from the pods", Serial, func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "backup")
		w := e.newWorld(ctx, "backup", racks(2, 8, "a/r0", "a/r1", "b/r2")...)
		w.create(w.graphOf("serves", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("serves")
		w.create(w.graphOf("small", "", services{"Worker": worker(1, 2, 4, "rack")}))
		w.ready("small")
		w.create(w.graphOf("waits", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.hasCondition("waits", placed, metav1.ConditionFalse, "InsufficientCapacity", "needs 2 pods")

		e.stopOperator(ctx)
		webhooks := w.standIn()
		objects := w.backup()
		w.withoutDeployments()
		uids := w.restoreBackup(objects)
		before := w.uids()
		Expect(before).To(HaveLen(10), "the pods of the backup")
		for _, p := range list(w, &trellisv1alpha1.GraphPlacementList{}).Items {
			Expect(uids).To(HaveKey(p.Spec.DeploymentUID), "%s names the former deployment", p.Name)
		}
		w.bring(webhooks)
		w.must(e.cluster.StartManager(ctx, sandbox.ManagerOptions{Args: placing()}))

		w.ready("serves")
		w.ready("small")
		w.hasCondition("waits", placed, metav1.ConditionFalse, "InsufficientCapacity", "needs 2 pods")
		w.recorded("waits")
		w.samePods(before)
		for _, p := range list(w, &trellisv1alpha1.GraphPlacementList{}).Items {
			Expect(uids).NotTo(HaveKey(p.Spec.DeploymentUID), "%s names the former deployment", p.Name)
		}

		By("what waits is placed when there is capacity")
		Expect(w.c.Delete(ctx, w.dgd("small"))).To(Succeed())
		w.ready("waits")
		for _, pod := range w.of("") {
			delete(before, pod.UID)
		}
		Expect(before).To(HaveLen(2), "only the pods of the deleted deployment are gone")
		w.notEvicted(ctx)
	}, SpecTimeout(2*suite.Timeout()))
})

// backup reads all objects of the namespace that a backup has.
func (w *world) backup() (objects []*unstructured.Unstructured) {
	w.t.Helper()
	for _, kind := range backedUp {
		for _, o := range w.objectsOf(kind) {
			if kind.Kind == "ServiceAccount" && o.GetName() == "default" {
				continue // each namespace has it
			}
			objects = append(objects, &o)
		}
	}
	return objects
}

func (w *world) objectsOf(kind schema.GroupVersionKind) []unstructured.Unstructured {
	w.t.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list(w, all).Items
}

// withoutDeployments deletes the deployments, and waits until the garbage collector has deleted all that they own.
func (w *world) withoutDeployments() {
	w.t.Helper()
	for _, o := range w.objectsOf(backedUp[0]) {
		w.must(w.c.Delete(w.t.Context(), &o))
	}
	w.until("nothing of the deployments is left", func() error {
		if left := w.backup(); len(left) > 0 {
			return fmt.Errorf("%s %s is there", left[0].GetKind(), left[0].GetName())
		}
		return nil
	})
}

// restoreBackup creates the objects with other UIDs, which their owner references name, and returns the new UIDs by the former ones.
func (w *world) restoreBackup(objects []*unstructured.Unstructured) map[string]types.UID {
	w.t.Helper()
	uids := map[string]types.UID{}
	for _, o := range objects {
		former, owners := string(o.GetUID()), o.GetOwnerReferences()
		for i := range owners {
			owners[i].UID = uids[string(owners[i].UID)]
		}
		o.SetOwnerReferences(owners)
		w.recreate(o)
		uids[former] = o.GetUID()
	}
	return uids
}
