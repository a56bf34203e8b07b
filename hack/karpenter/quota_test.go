// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// settled is the age of a gang's pods by which the operator would have requested nodes.
const settled = 15 * time.Second

// team is a namespace with a queue.
type team struct {
	ctx  context.Context
	name string
}

// kueueObject returns an object of Kueue's API.
func kueueObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": quota.WorkloadKind.GroupVersion().String(), "kind": kind, "spec": spec}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// newTeam creates a team with quota for some GPUs on nodes that Karpenter adds. With checks, only gangs with a place keep their quota.
func newTeam(ctx context.Context, name string, gpus int64, checks ...string) *team {
	GinkgoHelper()
	t := &team{ctx: ctx, name: name}
	Expect(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	t.create(kueueObject("ResourceFlavor", "", name, map[string]any{"nodeLabels": map[string]any{"karpenter.sh/nodepool": "gpu"}}))
	queue := t.queue(gpus)
	for _, check := range checks {
		t.create(kueueObject("AdmissionCheck", "", check, map[string]any{"controllerName": quota.CheckController}))
		Expect(unstructured.SetNestedSlice(queue.Object, []any{map[string]any{"name": check}}, "spec", "admissionChecksStrategy", "admissionChecks")).To(Succeed())
	}
	t.create(queue)
	t.create(kueueObject("LocalQueue", name, "q", map[string]any{"clusterQueue": name}))
	return t
}

func (t *team) queue(gpus int64) *unstructured.Unstructured {
	return kueueObject("ClusterQueue", "", t.name, map[string]any{
		"namespaceSelector": map[string]any{},
		"resourceGroups":    t.groups(gpus),
	})
}

func (t *team) groups(gpus int64) []any {
	return []any{map[string]any{
		"coveredResources": []any{"nvidia.com/gpu"},
		"flavors": []any{map[string]any{"name": t.name, "resources": []any{
			map[string]any{"name": "nvidia.com/gpu", "nominalQuota": gpus},
		}}},
	}}
}

// create creates an object and deletes it when the spec ends.
func (t *team) create(o client.Object) {
	GinkgoHelper()
	until(t.ctx, o.GetName()+" is created", func() error { return api.Create(t.ctx, o) })
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(api.Delete(ctx, o)) }, NodeTimeout(suite.Patience()))
}

// gives raises the quota.
func (t *team) gives(gpus int64) {
	GinkgoHelper()
	queue := t.queue(gpus)
	until(t.ctx, "the quota is raised", func() error {
		change := fmt.Sprintf(`[{"op":"replace","path":"/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota","value":"%d"}]`, gpus)
		return api.Patch(t.ctx, queue, client.RawPatch(types.JSONPatchType, []byte(change)))
	})
}

// used returns an error unless Kueue counts the given number of GPUs as used.
func (t *team) used(want int64) error {
	queue := t.queue(0)
	if err := api.Get(t.ctx, client.ObjectKeyFromObject(queue), queue); err != nil {
		return err
	}
	sum := int64(0)
	flavors, _, _ := unstructured.NestedSlice(queue.Object, "status", "flavorsReservation")
	for _, flavor := range flavors {
		resources, _, _ := unstructured.NestedSlice(flavor.(map[string]any), "resources")
		for _, one := range resources {
			total, _, _ := unstructured.NestedString(one.(map[string]any), "total")
			var n int64
			_, _ = fmt.Sscan(total, &n)
			sum += n
		}
	}
	if sum != want {
		return fmt.Errorf("%d GPUs are used, want %d", sum, want)
	}
	return nil
}

// reserved reports whether a Workload of the team has quota, and whether it is admitted.
func (t *team) reserved(ctx context.Context) (quotaReserved, admitted bool) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(quota.WorkloadKind.GroupVersion().WithKind("WorkloadList"))
	if api.List(ctx, list, client.InNamespace(t.name)) != nil {
		return false, false
	}
	for i := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "conditions")
		for _, one := range conditions {
			c := one.(map[string]any)
			quotaReserved = quotaReserved || c["type"] == "QuotaReserved" && c["status"] == "True"
			admitted = admitted || c["type"] == "Admitted" && c["status"] == "True"
		}
	}
	return quotaReserved, admitted
}

// order records when the first placeholder appeared: before the team had quota, or after its Workload was admitted.
type order struct{ early, afterAdmission, seen atomic.Bool }

func (t *team) observe() *order {
	GinkgoHelper()
	o := &order{}
	ctx, cancel := context.WithCancel(t.ctx)
	DeferCleanup(cancel)
	changes, err := api.Watch(ctx, &corev1.PodList{}, client.InNamespace(own), client.HasLabels{capacity.LabelAsk})
	Expect(err).NotTo(HaveOccurred())
	go func() {
		for event := range changes.ResultChan() {
			if event.Type != watch.Added || o.seen.Swap(true) {
				continue
			}
			reserved, admitted := t.reserved(ctx)
			o.early.Store(!reserved)
			o.afterAdmission.Store(admitted)
		}
	}()
	return o
}

// old returns an error until all pods of the team are older than settled.
func (t *team) old(want int) error {
	all, err := pods(t.ctx, t.name, client.HasLabels{render.LabelGraph})
	if err != nil {
		return err
	}
	for i := range all {
		if age := time.Since(all[i].CreationTimestamp.Time); age < settled {
			return fmt.Errorf("pod %s is %s old", all[i].Name, age)
		}
	}
	if len(all) != want {
		return fmt.Errorf("there are %d pods", len(all))
	}
	return nil
}

// waits returns an error until a condition of a deployment is False for a reason.
func (t *team) waits(dgd *nvidiav1alpha1.DynamoGraphDeployment, kind, reason string) error {
	if err := api.Get(t.ctx, client.ObjectKeyFromObject(dgd), dgd); err != nil {
		return err
	}
	if c := meta.FindStatusCondition(dgd.Status.Conditions, kind); c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
		return fmt.Errorf("%s is %+v", kind, c)
	}
	return nil
}

var _ = Describe("A gang in a queue of the real Kueue", Serial, func() {
	DescribeTable("gets quota, then nodes, then its place", func(ctx SpecContext, name string, checks ...string) {
		t := newTeam(ctx, name, 8, checks...)
		DeferCleanup(func(ctx SpecContext) {
			AddReportEntry("quota and admission", fmt.Sprint(t.reserved(ctx)))
		}, NodeTimeout(suite.Patience()))
		until(ctx, "there is no node", func() error { return nodes(ctx, 0) })
		happens := t.observe()
		dgd := gang(name, 2)
		dgd.Labels = map[string]string{render.LabelKueueQueue: "q"}
		until(ctx, "the deployment is created", func() error { return api.Create(ctx, dgd) })
		DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(api.Delete(ctx, dgd)) }, NodeTimeout(suite.Patience()))

		By("waiting for quota: nothing is asked for")
		until(ctx, "it waits for quota", func() error { return t.waits(dgd, nvidiav1alpha1.ConditionQuotaReserved, "QuotaPending") })
		until(ctx, "it waits for admission", func() error { return t.waits(dgd, "Placed", "WaitingForAdmission") })
		until(ctx, "its pods are old enough", func() error { return t.old(2) })
		Expect(none(ctx)).To(Succeed())
		Expect(nodes(ctx, 0)).To(Succeed())

		By("raising the quota")
		t.gives(16)
		until(ctx, "all pods are bound in one zone", func() error { return together(ctx, name, 2) })
		until(ctx, "no placeholder is left", func() error { return none(ctx) })
		until(ctx, "the deployment is Ready", func() error { return ready(ctx, dgd) })
		until(ctx, "Karpenter has removed what it added too much", func() error { return nodes(ctx, 2) })
		Expect(t.used(16)).To(Succeed())
		Expect(happens.seen.Load()).To(BeTrue(), "a placeholder was seen")
		Expect(happens.early.Load()).To(BeFalse(), "nodes were asked for before there was quota")
		if len(checks) > 0 {
			Expect(happens.afterAdmission.Load()).To(BeFalse(), "it was admitted before it had a place")
		}

		By("it is deleted")
		Expect(api.Delete(ctx, dgd)).To(Succeed())
		until(ctx, "the quota is given back", func() error { return t.used(0) })
		until(ctx, "there is no node", func() error { return nodes(ctx, 0) })
	},
		Entry("when Kueue admits it by its quota alone", SpecTimeout(suite.Timeout()), "quota"),
		Entry("when Kueue waits for its place, too", SpecTimeout(suite.Timeout()), "checked", "place"),
	)
})
