// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// More objects than a page holds, in two namespaces, of both kinds. None of them changes as far as anybody can read.
func TestRewritesEverything(t *testing.T) {
	w := newWorld(t)
	w.remove()
	w.release()
	for i := range 2*pageSize + 5 {
		w.create("DynamoGraphDeploymentScalingAdapter", []string{"team-a", "team-b"}[i%2], fmt.Sprint("a-", i))
	}
	w.create("DynamoGraphDeployment", "team-a", "g")
	w.create("DynamoGraphDeployment", "team-b", "g")
	w.wantStored("dynamographdeploymentscalingadapters", "205 v1alpha1")
	before := w.all()
	w.upgrade()
	w.wantStored("dynamographdeployments", "2 v1alpha1")
	w.wantVersions(adapters, "v1alpha1", "v1beta1")

	for _, name := range []string{deployments, adapters} {
		w.must(w.reconcile(w.reconciler(), name))
		w.wantVersions(name, "v1beta1")
		w.wantCondition(name, "True", reasonMigrated, "all objects are stored as v1beta1")
	}
	w.wantStored("dynamographdeploymentscalingadapters", "205 v1beta1")
	w.wantStored("dynamographdeployments", "2 v1beta1")
	if n := valueOf(t, complete); n != 1 {
		t.Errorf("trellis_storage_migration_complete is %v", n)
	}
	after := w.all()
	for key, object := range after {
		if object.GetResourceVersion() == before[key].GetResourceVersion() {
			t.Errorf("%s was not written", key)
		}
		object.SetResourceVersion(before[key].GetResourceVersion())
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("objects changed (-before, +after):\n%s", diff)
	}

	once := w.all()
	definition := w.definition(adapters).ResourceVersion
	w.must(w.reconcile(w.reconciler(), adapters))
	if diff := cmp.Diff(once, w.all()); diff != "" || w.definition(adapters).ResourceVersion != definition {
		t.Errorf("written again:\n%s", diff)
	}
}

// all reads the objects of both kinds as v1alpha1.
func (w *world) all() map[string]*unstructured.Unstructured {
	w.t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for _, kind := range []string{"DynamoGraphDeployment", "DynamoGraphDeploymentScalingAdapter"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("nvidia.com/v1alpha1")
		list.SetKind(kind + "List")
		w.must(w.c.List(w.t.Context(), list))
		for i := range list.Items {
			out[kind+"/"+list.Items[i].GetNamespace()+"/"+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return out
}

// One object that the cluster refuses to write keeps the version, and no other object from being written.
func TestRefusedObjects(t *testing.T) {
	w := today(t)
	for _, name := range []string{"a", "stuck", "z"} {
		w.create("DynamoGraphDeployment", "team-a", name)
	}
	w.store("v1beta1")
	lift := w.forbid("stuck")
	r := w.reconciler()
	if err := w.reconcile(r, deployments); err == nil || !strings.Contains(err.Error(), "team-a/stuck") {
		t.Errorf("got %v, want an error that names the object", err)
	}
	w.wantStored("dynamographdeployments", "1 v1alpha1, 2 v1beta1")
	w.wantVersions(deployments, "v1alpha1", "v1beta1")
	w.wantCondition(deployments, "False", reasonRefused, "1 objects", "team-a/stuck", "nobody writes this one")
	if n := valueOf(t, remaining); n != 1 {
		t.Errorf("%v objects remain", n)
	}
	was := w.definition(deployments).ResourceVersion
	if err := w.reconcile(r, deployments); err == nil || w.definition(deployments).ResourceVersion != was {
		t.Errorf("tried again: %v; the condition was written again: %t", err, w.definition(deployments).ResourceVersion != was)
	}
	lift()
	w.until("the object can be written", func() error { return w.reconcile(r, deployments) })
	w.wantStored("dynamographdeployments", "3 v1beta1")
	w.wantVersions(deployments, "v1beta1")
}

// An operator for some namespaces does what it can, and leaves the word to who knows all.
func TestSomeNamespaces(t *testing.T) {
	w := today(t)
	w.create("DynamoGraphDeployment", "team-a", "g")
	w.create("DynamoGraphDeployment", "team-b", "g")
	w.store("v1beta1")
	r := w.reconciler("team-a")
	w.must(w.reconcile(r, deployments))
	w.wantStored("dynamographdeployments", "1 v1alpha1, 1 v1beta1")
	w.wantVersions(deployments, "v1alpha1", "v1beta1")
	w.wantCondition(deployments, "False", reasonOtherNamespaces, "namespaces team-a only", "A cluster admin has to")
	if n := valueOf(t, complete); n != 0 {
		t.Errorf("trellis_storage_migration_complete is %v", n)
	}
	was := w.definition(deployments).ResourceVersion
	w.must(w.reconcile(r, deployments))
	if w.definition(deployments).ResourceVersion != was {
		t.Error("the condition was written again")
	}
}

// Who moves back makes v1alpha1 the storage version. Then the definitions of the earlier release, which know no other, can be installed.
func TestMovesBack(t *testing.T) {
	w := whole(t)
	w.create("DynamoGraphDeployment", "team-a", "g")
	w.store("v1beta1")
	w.must(w.reconcile(w.reconciler(), deployments))
	beta := alpha("DynamoGraphDeployment", "team-b", "h")
	beta.SetAPIVersion("nvidia.com/v1beta1")
	beta.Object["spec"] = map[string]any{"components": []any{map[string]any{"name": "Worker", "podTemplate": map[string]any{
		"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "a"}}},
	}}}}
	w.must(w.c.Create(t.Context(), beta))
	w.wantStored("dynamographdeployments", "2 v1beta1")

	w.store("v1alpha1")
	r := w.reconciler()
	for _, name := range []string{deployments, adapters} {
		w.must(w.reconcile(r, name))
		w.wantVersions(name, "v1alpha1")
		w.wantCondition(name, "True", reasonMigrated, "all objects are stored as v1alpha1")
	}
	w.wantStored("dynamographdeployments", "2 v1alpha1")
	w.release()
	if got := len(w.definition(deployments).Spec.Versions); got != 1 {
		t.Errorf("the definition has %d versions", got)
	}
	objects := w.all()
	if objects["DynamoGraphDeployment/team-a/g"] == nil || objects["DynamoGraphDeployment/team-b/h"] == nil {
		t.Errorf("read back: %v", objects)
	}
}

// Each API server writes the version before until it has learnt of the new one.
func TestWaitsUntilSettled(t *testing.T) {
	w := today(t)
	w.create("DynamoGraphDeployment", "team-a", "g")
	w.store("v1beta1")
	now := clocktesting.NewFakePassiveClock(time.Now())
	r := w.reconciler()
	r.Clock, r.Settle = now, 10*time.Second
	look := func(want time.Duration) {
		t.Helper()
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: deployments}})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("again after %s, want %s: %v", result.RequeueAfter, want, err)
		}
	}
	look(10 * time.Second)
	now.SetTime(now.Now().Add(4 * time.Second))
	look(6 * time.Second)
	w.must(w.c.Patch(t.Context(), w.definition(deployments), otherwise()))
	look(10 * time.Second)
	w.wantStored("dynamographdeployments", "1 v1alpha1")
	now.SetTime(now.Now().Add(10 * time.Second))
	look(0)
	w.wantStored("dynamographdeployments", "1 v1beta1")
}

// A definition that is not there is none of a migration.
func TestNoDefinition(t *testing.T) {
	w := newWorld(t)
	if err := w.reconcile(w.reconciler(), "others.nvidia.com"); err != nil {
		t.Error(err)
	}
}

// forbid has the API server refuse every change of the deployments of a name, until the returned function is called.
func (w *world) forbid(name string) (lift func()) {
	w.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "forbid"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				ResourceNames: []string{name},
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"nvidia.com"}, APIVersions: []string{"*"}, Resources: []string{"dynamographdeployments"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "nobody writes this one"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "forbid"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "forbid", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	w.must(w.c.Create(w.t.Context(), policy))
	w.must(w.c.Create(w.t.Context(), binding))
	w.until("the policy holds", func() error {
		err := w.c.Patch(w.t.Context(), alpha("DynamoGraphDeployment", "team-a", name),
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
		if err == nil {
			return errors.New("the object can be written")
		}
		return nil
	})
	return func() {
		w.must(w.c.Delete(w.t.Context(), binding))
		w.must(w.c.Delete(w.t.Context(), policy))
	}
}

// valueOf is what a metric says of deployments.
func valueOf(t *testing.T, of *prometheus.GaugeVec) float64 {
	t.Helper()
	read := dto.Metric{}
	if err := of.WithLabelValues("dynamographdeployments").Write(&read); err != nil {
		t.Fatal(err)
	}
	return read.GetGauge().GetValue()
}
