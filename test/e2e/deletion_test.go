// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// finalized is what another controller finalizes: Argo CD, or a person with a finalizer of their own.
var finalized = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/others"]}}`))

// unfinalized removes all finalizers.
var unfinalized = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))

// deletable is an object of each kind, in the versions in which they are stored.
func (w *world) deletable(way string) map[string]client.Object {
	w.t.Helper()
	for _, kind := range []string{"graph", "adapter", "group"} {
		w.create(w.graphOf(way+"-"+kind, "zone", services{"Worker": withAdapter(worker(1, 1, 0, ""))}))
		w.ready(way + "-" + kind)
	}
	topology := w.topology()
	topology.Name = w.name + "-" + way
	w.create(topology)
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: w.name, Name: way + "-" + name}
	}
	return map[string]client.Object{
		"a deployment":       &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: named("graph")},
		"a scaling adapter":  &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: named("adapter-worker")},
		"a scaling group":    &trellisv1alpha1.ScalingGroup{ObjectMeta: named("group-worker")},
		"a cluster topology": &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: topology.Name}},
	}
}

// isDeleted returns an error while an object is there.
func (w *world) isDeleted(o client.Object) error {
	w.t.Helper()
	err := w.c.Get(w.t.Context(), client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("it is there, with the finalizers %v", o.GetFinalizers()))
}

var _ = Describe("While no operator answers", func() {
	// The garbage collector and other controllers update objects that are being deleted: they remove finalizers. Admission fails closed, and does not
	// ask about these updates.
	It("every kind of object can be deleted in every way, and so can a namespace", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "unanswered")
		w := e.newWorld(ctx, "unanswered", racks(4, 8, "a/r0")...)
		w.collected()
		ways := map[string]map[string]client.Object{}
		for _, way := range []string{"foreground", "orphan", "finalizer"} {
			ways[way] = w.deletable(way)
		}
		for _, object := range ways["finalizer"] {
			w.must(w.c.Patch(ctx, object, finalized))
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-too"}}
		w.create(namespace)
		inside := w.graphOf("g", "zone", services{"Worker": withAdapter(worker(1, 1, 0, ""))})
		inside.Namespace = namespace.Name
		w.create(inside)
		w.until("the deployment in the other namespace is Ready", func() error {
			now := get(w, &nvidiav1alpha1.DynamoGraphDeployment{}, namespace.Name, "g")
			if now.Status.State != nvidiav1alpha1.StateSuccessful {
				return fmt.Errorf("its state is %q", now.Status.State)
			}
			return nil
		})
		held := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "g"}}
		w.must(w.c.Patch(ctx, held, finalized))

		e.stopOperator(ctx)
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		Expect(w.c.Patch(ctx, ways["orphan"]["a deployment"], label)).To(MatchError(ContainSubstring("trellis.dev")), "other updates fail closed")

		propagation := map[string]client.DeleteOption{
			"foreground": client.PropagationPolicy(metav1.DeletePropagationForeground), "orphan": client.PropagationPolicy(metav1.DeletePropagationOrphan),
			"finalizer": client.PropagationPolicy(metav1.DeletePropagationBackground),
		}
		for way, objects := range ways {
			for _, object := range objects {
				w.must(w.c.Delete(ctx, object, propagation[way]))
			}
		}
		w.must(w.c.Delete(ctx, namespace))
		for kind, object := range ways["finalizer"] {
			Expect(w.c.Patch(ctx, object, unfinalized)).To(Succeed(), "removing the finalizer of %s", kind)
		}
		for way, objects := range ways {
			for kind, object := range objects {
				w.until(fmt.Sprintf("%s is gone (%s)", kind, way), func() error { return w.isDeleted(object) })
			}
		}
		w.until("the namespace waits for the finalizer", func() error {
			w.must(w.c.Get(ctx, client.ObjectKeyFromObject(held), held))
			if held.DeletionTimestamp == nil {
				return errors.New("its deployment is not being deleted")
			}
			return nil
		})
		w.must(w.c.Patch(ctx, held, unfinalized))
		w.until("the namespace is gone", func() error { return w.isDeleted(namespace) })

		By("what was orphaned stays, and what was deleted in the foreground is gone")
		orphan := &trellisv1alpha1.ScalingGroup{}
		w.must(w.c.Get(ctx, key(w.name, "orphan-graph-worker"), orphan))
		Expect(orphan.OwnerReferences).To(BeEmpty())
		Expect(w.isDeleted(&trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "foreground-graph-worker"}})).To(Succeed())
	}, SpecTimeout(suite.Timeout()))
})
