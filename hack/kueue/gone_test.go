// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// secretProgram provides Kueue's certificate.
const secretProgram = "kueue-controller-manager-secret-mount"

// listOf lists all objects of a kind.
func listOf(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	kind.Kind += "List"
	list.SetGroupVersionKind(kind)
	err := api.List(ctx, list)
	return list.Items, err
}

// uninstallKueue acts like a deletion of Kueue's manifests: it ends Kueue's program, and deletes its webhooks and definitions with all
// their objects. It removes the finalizers of these objects, as an administrator has to.
func (h *hall) uninstallKueue() {
	GinkgoHelper()
	Expect(cluster.KillProgram(h.ctx, peers.KueueProgram)).To(Succeed())
	Expect(cluster.KillProgram(h.ctx, secretProgram)).To(Succeed())
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		h.deleteOf(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind}, func(o *unstructured.Unstructured) bool {
			return strings.HasPrefix(o.GetName(), "kueue-")
		})
	}
	definitions := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	ours := func(o *unstructured.Unstructured) bool {
		return strings.HasSuffix(o.GetName(), "."+quota.WorkloadKind.Group)
	}
	h.deleteOf(definitions, ours)
	h.until("no definition of Kueue is left", func() error {
		left, err := listOf(h.ctx, definitions)
		for i := range left {
			if ours(&left[i]) {
				kind, _, _ := unstructured.NestedString(left[i].Object, "spec", "names", "kind")
				err = errors.Join(err, fmt.Errorf("%s is left", left[i].GetName()), h.freeOf(quota.WorkloadKind.GroupVersion().WithKind(kind)))
			}
		}
		return err
	})
}

// deleteOf deletes the objects of a kind for which chosen returns true.
func (h *hall) deleteOf(kind schema.GroupVersionKind, chosen func(*unstructured.Unstructured) bool) {
	GinkgoHelper()
	h.answered(func() error {
		all, err := listOf(h.ctx, kind)
		for i := range all {
			if chosen(&all[i]) {
				err = errors.Join(err, client.IgnoreNotFound(api.Delete(h.ctx, &all[i])))
			}
		}
		return err
	})
}

// freeOf removes the finalizers of all objects of a kind.
func (h *hall) freeOf(kind schema.GroupVersionKind) error {
	all, err := listOf(h.ctx, kind)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	for i := range all {
		if len(all[i].GetFinalizers()) > 0 {
			err = errors.Join(err, client.IgnoreNotFound(api.Patch(h.ctx, &all[i], merge(`{"metadata":{"finalizers":null}}`))))
		}
	}
	return err
}

// installKueue installs Kueue again, unless it runs.
func installKueue(ctx context.Context) error {
	if cluster.WaitForProgram(ctx, peers.KueueProgram) == nil {
		return nil
	}
	return kueue.Start(ctx, cluster)
}

var _ = Describe("A real Kueue that is uninstalled while gangs wait", Serial, suite.Faults, func() {
	It("is missed by name, and what waits continues without the label, or when it is installed again", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) error { return installKueue(ctx) }, NodeTimeout(2*suite.Patience()))
		t := newHall(ctx, 3).newTeam("a", 16)
		t.create(t.graph("runs", workers(1)))
		t.ready("runs")
		before := graphs.UIDs(t.pods())
		for _, name := range []string{"leaves", "stays"} {
			t.create(t.graph(name, workers(1)))
			t.says(name, reserved, metav1.ConditionFalse, "QuotaPending", "0 of 1 Workloads")
		}

		t.uninstallKueue()
		for _, name := range []string{"leaves", "stays"} {
			t.says(name, reserved, metav1.ConditionFalse, "KueueNotInstalled", "install a Kueue")
			t.says(name, placed, metav1.ConditionFalse, "WaitingForAdmission", quota.Gate)
		}
		t.says("runs", reserved, metav1.ConditionFalse, "KueueNotInstalled", "install a Kueue")
		t.stay(before)

		By("removing the label of one")
		t.patch("leaves", `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}}`)
		t.ready("leaves")
		t.inOneRack(t.podsOf("leaves", "Worker"))
		Expect(meta.FindStatusCondition(t.dgd("leaves").Status.Conditions, reserved)).To(BeNil())
		t.says("stays", reserved, metav1.ConditionFalse, "KueueNotInstalled")
		Expect(t.running()).To(Equal(int64(32)), "the third one does not bypass the quota")
		t.stay(before)

		By("installing Kueue again, with quota for both that are in its queue")
		Expect(installKueue(ctx)).To(Succeed())
		t.gpus = 32
		t.create(t.flavor(t.name, map[string]any{poolKey: t.name}))
		t.create(t.clusterQueue(gpuResource))
		t.create(kueueObject("LocalQueue", t.namespace, queueName, map[string]any{"clusterQueue": t.namespace}))
		for _, name := range []string{"runs", "stays"} {
			t.says(name, reserved, metav1.ConditionTrue, "QuotaReserved")
			t.ready(name)
		}
		t.until("the quota is what runs in the queue", func() error { return t.uses(32) })
		t.remove("leaves")
		t.settle()
	}, SpecTimeout(2*suite.Timeout()))
})
