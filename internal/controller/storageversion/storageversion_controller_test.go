// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A migration of stored objects", func() {
	It("rewrites more objects than a page holds, in two namespaces, of both kinds, and changes none as far as anyone can read", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
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
			Expect(w.reconcile(w.reconciler(), name)).To(Succeed())
			w.wantVersions(name, "v1beta1")
			w.wantCondition(name, "True", reasonMigrated, "all objects are stored as v1beta1")
		}
		w.wantStored("dynamographdeploymentscalingadapters", "205 v1beta1")
		w.wantStored("dynamographdeployments", "2 v1beta1")
		Expect(valueOf(complete)).To(BeEquivalentTo(1), "trellis_storage_migration_complete")
		after := w.all()
		for key, object := range after {
			Expect(object.GetResourceVersion()).NotTo(Equal(before[key].GetResourceVersion()), "%s was not written", key)
			object.SetResourceVersion(before[key].GetResourceVersion())
		}
		Expect(cmp.Diff(before, after)).To(BeEmpty(), "objects changed (-before, +after)")

		once := w.all()
		definition := w.definition(adapters).ResourceVersion
		Expect(w.reconcile(w.reconciler(), adapters)).To(Succeed())
		Expect(cmp.Diff(once, w.all())).To(BeEmpty(), "written again")
		Expect(w.definition(adapters).ResourceVersion).To(Equal(definition), "written again")
	})

	It("goes past an object that the cluster refuses to write, which keeps the version", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := today(ctx)
		for _, name := range []string{"a", "stuck", "z"} {
			w.create("DynamoGraphDeployment", "team-a", name)
		}
		w.store("v1beta1")
		lift := w.forbid("stuck")
		r := w.reconciler()
		Expect(w.reconcile(r, deployments)).To(MatchError(ContainSubstring("team-a/stuck")))
		w.wantStored("dynamographdeployments", "1 v1alpha1, 2 v1beta1")
		w.wantVersions(deployments, "v1alpha1", "v1beta1")
		w.wantCondition(deployments, "False", reasonRefused, "1 objects", "team-a/stuck", "nobody writes this one")
		Expect(valueOf(remaining)).To(BeEquivalentTo(1), "objects that remain")
		was := w.definition(deployments).ResourceVersion
		Expect(w.reconcile(r, deployments)).NotTo(Succeed(), "tried again")
		Expect(w.definition(deployments).ResourceVersion).To(Equal(was), "the condition was written again")
		lift()
		w.until("the object can be written", func() error { return w.reconcile(r, deployments) })
		w.wantStored("dynamographdeployments", "3 v1beta1")
		w.wantVersions(deployments, "v1beta1")
	})

	It("does what it can for some namespaces, and reports that a cluster admin has to finish", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := today(ctx)
		w.create("DynamoGraphDeployment", "team-a", "g")
		w.create("DynamoGraphDeployment", "team-b", "g")
		w.store("v1beta1")
		r := w.reconciler("team-a")
		Expect(w.reconcile(r, deployments)).To(Succeed())
		w.wantStored("dynamographdeployments", "1 v1alpha1, 1 v1beta1")
		w.wantVersions(deployments, "v1alpha1", "v1beta1")
		w.wantCondition(deployments, "False", reasonOtherNamespaces, "namespaces team-a only", "A cluster admin has to")
		Expect(valueOf(complete)).To(BeZero(), "trellis_storage_migration_complete")
		was := w.definition(deployments).ResourceVersion
		Expect(w.reconcile(r, deployments)).To(Succeed())
		Expect(w.definition(deployments).ResourceVersion).To(Equal(was), "the condition was written again")
	})

	It("moves back to v1alpha1, so that the definitions of the earlier release can be installed", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := whole(ctx)
		w.create("DynamoGraphDeployment", "team-a", "g")
		w.store("v1beta1")
		Expect(w.reconcile(w.reconciler(), deployments)).To(Succeed())
		beta := alpha("DynamoGraphDeployment", "team-b", "h")
		beta.SetAPIVersion("nvidia.com/v1beta1")
		beta.Object["spec"] = map[string]any{"components": []any{map[string]any{"name": "Worker", "podTemplate": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "a"}}},
		}}}}
		Expect(w.c.Create(ctx, beta)).To(Succeed())
		w.wantStored("dynamographdeployments", "2 v1beta1")

		w.store("v1alpha1")
		r := w.reconciler()
		for _, name := range []string{deployments, adapters} {
			Expect(w.reconcile(r, name)).To(Succeed())
			w.wantVersions(name, "v1alpha1")
			w.wantCondition(name, "True", reasonMigrated, "all objects are stored as v1alpha1")
		}
		w.wantStored("dynamographdeployments", "2 v1alpha1")
		w.release()
		Expect(w.definition(deployments).Spec.Versions).To(HaveLen(1))
		objects := w.all()
		Expect(objects).To(And(HaveKey("DynamoGraphDeployment/team-a/g"), HaveKey("DynamoGraphDeployment/team-b/h")), "read back")
	})

	It("waits until each API server has learnt of the new version", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := today(ctx)
		w.create("DynamoGraphDeployment", "team-a", "g")
		w.store("v1beta1")
		now := clocktesting.NewFakePassiveClock(time.Now())
		r := w.reconciler()
		r.Clock, r.Settle = now, 10*time.Second
		look := func(want time.Duration) {
			GinkgoHelper()
			result, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Name: deployments}})
			Expect(err).NotTo(HaveOccurred())
			Expect(result.RequeueAfter).To(Equal(want), "again")
		}
		look(10 * time.Second)
		now.SetTime(now.Now().Add(4 * time.Second))
		look(6 * time.Second)
		Expect(w.c.Patch(ctx, w.definition(deployments), otherwise())).To(Succeed())
		look(10 * time.Second)
		w.wantStored("dynamographdeployments", "1 v1alpha1")
		now.SetTime(now.Now().Add(10 * time.Second))
		look(0)
		w.wantStored("dynamographdeployments", "1 v1beta1")
	})

	It("ignores a definition that is not there", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		Expect(w.reconcile(w.reconciler(), "others.nvidia.com")).To(Succeed())
	})
})

// forbid has the API server refuse every change of the deployments of a name, until the returned function is called.
func (w *world) forbid(name string) (lift func()) {
	GinkgoHelper()
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
	Expect(w.c.Create(w.ctx, policy)).To(Succeed())
	Expect(w.c.Create(w.ctx, binding)).To(Succeed())
	w.until("the policy holds", func() error {
		err := w.c.Patch(w.ctx, alpha("DynamoGraphDeployment", "team-a", name),
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
		if err == nil {
			return errors.New("the object can be written")
		}
		return nil
	})
	return func() {
		Expect(w.c.Delete(w.ctx, binding)).To(Succeed())
		Expect(w.c.Delete(w.ctx, policy)).To(Succeed())
	}
}

// valueOf is what a metric says of deployments.
func valueOf(of *prometheus.GaugeVec) float64 {
	GinkgoHelper()
	read := dto.Metric{}
	Expect(of.WithLabelValues("dynamographdeployments").Write(&read)).To(Succeed())
	return read.GetGauge().GetValue()
}

// all reads the objects of both kinds as v1alpha1.
func (w *world) all() map[string]*unstructured.Unstructured {
	GinkgoHelper()
	out := map[string]*unstructured.Unstructured{}
	for _, kind := range []string{"DynamoGraphDeployment", "DynamoGraphDeploymentScalingAdapter"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("nvidia.com/v1alpha1")
		list.SetKind(kind + "List")
		Expect(w.c.List(w.ctx, list)).To(Succeed())
		for i := range list.Items {
			out[kind+"/"+list.Items[i].GetNamespace()+"/"+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return out
}
