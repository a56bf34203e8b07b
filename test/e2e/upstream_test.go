// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// fromUpstream is a world whose objects the Dynamo operator made.
type fromUpstream struct {
	*world
	// before are the objects of testdata/upstream.yaml as they were stored, by kind and name.
	before map[string]*unstructured.Unstructured
}

var _ = Describe("A move from the Dynamo operator and back", func() {
	// deployments and adapters with the status that the Dynamo operator left, stored by its definitions in both versions,
	// are taken over as docs/migrate.md says: replicas stay those of the adapters, and a restart that is over is not done again. Then all of it is given
	// back: its definitions are installed again, the objects are whole and can be written, and the pods of Trellis are gone.
	It("keeps replicas and restarts that are over, and gives every object back whole", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "upstream")
		w := &fromUpstream{world: e.emptyWorld(ctx, "upstream"), before: map[string]*unstructured.Unstructured{}}
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
		w.addHosts(racks(2, 8, "a/r0")...)
		e.stopOperator(ctx)
		today := w.removeTrellis()
		documents := w.objectsIn(w.filledIn(filepath.Join("testdata", "upstream.yaml")))
		w.store("v1alpha1", documents[:2])
		w.store("v1beta1", documents[2:])
		w.stored("dynamographdeployments", map[string]int{"v1alpha1": 1, "v1beta1": 1})
		w.stored("dynamographdeploymentscalingadapters", map[string]int{"v1alpha1": 1, "v1beta1": 1})

		By("Trellis is installed over its definitions")
		w.bring(today)
		w.must(e.cluster.StartManager(ctx, sandbox.ManagerOptions{}))
		for _, name := range convert.Definitions {
			w.until("all objects are migrated", func() error { return w.migrated(name) })
		}
		w.ready("older")
		w.ready("newer")
		w.taken("older", "first", false)
		w.taken("newer", "second", true)

		By("back to the Dynamo operator")
		e.stopOperator(ctx)
		w.removeHooks()
		w.install("v1beta1")
		w.givenBack("older", 2)
		w.givenBack("newer", 2)
		w.mustKubectl("delete", "scalinggroups.trellis.dev", "--all")
		w.until("the pods of Trellis are gone, and the claims stay", w.left)
		e.logsNothingOf("forbidden")
	}, SpecTimeout(suite.Timeout()))
})

// install installs the Dynamo operator's definitions, over what is there.
func (w *fromUpstream) install(storage string) {
	w.t.Helper()
	for _, file := range definitions.Upstream {
		crd, err := definitions.InstalledUpstream(os.Getenv("TRELLIS_PEER_DEFINITIONS"), file, storage)
		w.must(err)
		w.define(crd)
	}
}

// store has the definitions store a version, and creates objects in it with the status they have: no one converts.
func (w *fromUpstream) store(version string, objects []*unstructured.Unstructured) {
	w.t.Helper()
	w.install(version)
	for _, o := range objects {
		o.SetNamespace(w.name)
		wanted := o.DeepCopy()
		unstructured.RemoveNestedField(o.Object, "spec", "restart")
		delete(o.Object, "status")
		if strings.HasSuffix(o.GetKind(), "Adapter") {
			deployment := w.before["DynamoGraphDeployment "+strings.TrimSuffix(o.GetName(), "-decode")]
			o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(deployment, deployment.GroupVersionKind())})
		}
		w.until("the object is created", func() error { return w.c.Create(w.t.Context(), o) })
		spec, err := json.Marshal(map[string]any{"spec": wanted.Object["spec"]})
		w.must(err)
		w.must(w.c.Patch(w.t.Context(), o, client.RawPatch(types.MergePatchType, spec)))
		o.Object["status"] = wanted.Object["status"]
		w.must(w.c.Status().Update(w.t.Context(), o))
		w.before[o.GetKind()+" "+o.GetName()] = o
	}
}

// read returns an object in the version it was stored in.
func (w *fromUpstream) read(kind, name string) (before, now *unstructured.Unstructured) {
	w.t.Helper()
	before = w.before[kind+" "+name]
	now = &unstructured.Unstructured{}
	now.SetGroupVersionKind(before.GroupVersionKind())
	return before, get(w.world, now, w.name, name)
}

// taken checks a deployment and its adapter after the move. scaled: the adapter asked for another number than the deployment had.
func (w *fromUpstream) taken(name, restart string, scaled bool) {
	w.t.Helper()
	was, now := w.read("DynamoGraphDeploymentScalingAdapter", name+"-decode")
	if was.GetUID() != now.GetUID() || !cmp.Equal(was.Object["spec"], now.Object["spec"]) {
		w.t.Errorf("the adapter of %s was %s %v and is %s %v", name, was.GetUID(), was.Object["spec"], now.GetUID(), now.Object["spec"])
	}
	adapter := get(w.world, &scalingAdapter{}, w.name, name+"-decode")
	w.until("the adapter reports the replicas", func() error {
		adapter = get(w.world, &scalingAdapter{}, w.name, name+"-decode")
		ours := strings.Contains(adapter.Status.Selector, name) && !strings.HasPrefix(adapter.Status.Selector, "nvidia.com/selector=")
		if adapter.Status.LastScaleTime == nil || adapter.Status.Replicas != 2 || !ours {
			return fmt.Errorf("its status is %+v", adapter.Status)
		}
		return nil
	})
	if said := fmt.Sprint(adapter.Status.LastScaleTime.UTC()); strings.HasPrefix(said, "2026-08-01 11:00:00") == scaled {
		w.t.Errorf("%s was scaled: %t, and its lastScaleTime is %s", name, scaled, said)
	}
	dgd := w.dgd(name)
	if n := *dgd.Spec.Services["Decode"].Replicas; n != 2 {
		w.t.Errorf("%s has %d replicas of Decode, want the 2 of its adapter", name, n)
	}
	if r := dgd.Status.Restart; r == nil || r.ObservedID != restart || r.Phase != nvidiav1alpha1.RestartCompleted {
		w.t.Errorf("the restart of %s is %+v, it was Completed", name, r)
	}
	for service, s := range dgd.Status.Services {
		if s.ComponentKind != "ScalingGroup" || strings.Contains(fmt.Sprint(s.ComponentNames), "-0") {
			w.t.Errorf("the status of %s, %s still names what is not there any more: %+v", name, service, s)
		}
	}
}

// givenBack checks that a deployment is whole under the definitions of the Dynamo operator, and that this can write it. Its v1beta1 alone can be read:
// who converts is not there yet.
func (w *fromUpstream) givenBack(name string, decodes int64) {
	w.t.Helper()
	before, now := w.before["DynamoGraphDeployment "+name], &unstructured.Unstructured{}
	now.SetAPIVersion("nvidia.com/v1beta1")
	now.SetKind("DynamoGraphDeployment")
	w.until("it can be read", func() error { return w.c.Get(w.t.Context(), key(w.name, name), now) })
	if before.GroupVersionKind().Version == "v1beta1" {
		spec := before.DeepCopy().Object["spec"].(map[string]any)
		spec["components"].([]any)[1].(map[string]any)["replicas"] = decodes
		if diff := cmp.Diff(spec, now.Object["spec"]); diff != "" {
			w.t.Errorf("%s (-written, +read):\n%s", name, diff)
		}
		annotations := now.GetAnnotations()
		delete(annotations, render.AnnotationWorkerHash) // which generation served; the Dynamo operator keeps its own there
		if diff := cmp.Diff(before.GetAnnotations(), annotations); diff != "" {
			w.t.Errorf("annotations of %s (-written, +read):\n%s", name, diff)
		}
	}
	now.SetFinalizers([]string{"nvidia.com/finalizer"})
	w.must(w.c.Update(w.t.Context(), now))
	now.SetFinalizers(nil)
	w.must(w.c.Update(w.t.Context(), now))
	unstructured.RemoveNestedField(now.Object, "status", "components")
	w.must(unstructured.SetNestedField(now.Object, "pending", "status", "state"))
	w.must(w.c.Status().Update(w.t.Context(), now))
	adapter := w.before["DynamoGraphDeploymentScalingAdapter "+name+"-decode"].DeepCopy()
	adapter.SetAPIVersion("nvidia.com/v1beta1")
	w.must(w.c.Get(w.t.Context(), client.ObjectKeyFromObject(adapter), adapter))
	if owner := metav1.GetControllerOf(adapter); owner == nil || owner.UID != before.GetUID() {
		w.t.Errorf("the adapter of %s is owned by %+v", name, owner)
	}
	w.must(w.c.Status().Update(w.t.Context(), adapter))
}

// left is an error as long as a pod or scaling group of Trellis is there, or something is gone that belongs to the deployments.
func (w *fromUpstream) left() error {
	if pods, groups := len(list(w.world, &corev1.PodList{}).Items), len(list(w.world, &trellisv1alpha1.ScalingGroupList{}).Items); pods+groups > 0 {
		return fmt.Errorf("%d pods and %d scaling groups", pods, groups)
	}
	for _, name := range []string{"models", "cache"} {
		if claim := get(w.world, &corev1.PersistentVolumeClaim{}, w.name, name); claim.DeletionTimestamp != nil {
			return fmt.Errorf("claim %s is being deleted", name)
		}
	}
	return nil
}
