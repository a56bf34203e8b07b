// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("The API of PodGroup", func() {
	// The API is switched off and on under running deployments: none of their pods is touched, nothing new is made half constrained, and all
	// of it continues by itself when the API is back.
	It("is switched off and on under running deployments, and no pod of theirs is touched", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "switched", func(o *sandbox.Options) {
			o.Manager = sandbox.ManagerOptions{Args: []string{"--requeue-after=" + requeueAfter.String()}}
		})
		w := e.newWorld(ctx, "switched", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3", "a/r4")...)
		create := func(name string) {
			dgd := w.graphOf(name, "zone", services{"Worker": worker(1, 2, 8, "rack")})
			dgd.Annotations = map[string]string{render.AnnotationProvider: specs.PodGroup.Name}
			w.create(dgd)
		}
		By("before the API is there, the deployment waits, says what is missing, and makes no pod; others go on by Gates")
		create("g")
		w.hasCondition("g", providerReady, metav1.ConditionFalse, "APINotServed", "does not serve podgroups and workloads of scheduling.k8s.io/v1beta1", "--feature-gates=GenericWorkload=true")
		w.waitsFor("ProviderNotReady", "does not serve")
		Expect(w.all()).To(BeEmpty(), "no pod is made")
		w.create(w.graphOf("plain", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("plain")

		By("it is switched on: no restart of the operator is needed")
		switchTo := func(provider sandbox.Provider) {
			Expect(e.cluster.SwitchProvider(ctx, provider)).To(Succeed())
		}
		switchTo(sandbox.PodGroup)
		w.ready("g")
		w.hasCondition("g", providerReady, metav1.ConditionTrue, "ProviderAvailable")
		create("loser")
		w.ready("loser")
		before := w.uids()
		delete(before, w.pod("loser-worker-0-1").UID)

		By("it is switched off under the running deployment")
		switchTo(sandbox.Gates)
		w.hasCondition("g", providerReady, metav1.ConditionFalse, "APINotServed", "running pods stay unchanged")
		w.ready("g")
		w.scale("g", "Worker", 2)
		w.waitsFor("ProviderNotReady", "Worker-1")
		w.scale("plain", "Worker", 2)
		w.ready("plain")
		w.deletePod("loser-worker-0-1")
		w.until("the lost pod has been noticed", func() error {
			if n := ptr.Deref(w.dgd("loser").Status.Services["Worker"].ReadyReplicas, 0); n > 0 {
				return fmt.Errorf("%d replicas are ready", n)
			}
			return nil
		})
		w.stillRun(before)

		By("and on again: what waited goes on, and a replica that lost a pod is recreated as a whole")
		half := w.pod("loser-worker-0-0").UID
		delete(before, half)
		switchTo(sandbox.PodGroup)
		w.ready("g")
		w.until("the half is gone", func() error {
			if w.uids()[half] {
				return errors.New("it is there")
			}
			return nil
		})
		w.ready("loser")
		w.stillRun(before)
		for ordinal, want := range map[int32]int{0: 6, 1: 4} { // of three deployments and of two
			Expect(w.replicasOf("Worker")[ordinal]).To(HaveLen(want), "replica %d", ordinal)
		}
		losesAMember(ctx, e)
	}, SpecTimeout(suite.Timeout()))
})

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	return get(w, &corev1.Pod{}, w.name, name)
}

// stillRun checks that all of these pods are there and on a node, and that none of them has been deleted.
func (w *world) stillRun(uids map[types.UID]bool) {
	w.t.Helper()
	left := maps.Clone(uids)
	for _, pod := range w.all() {
		if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
			delete(left, pod.UID)
		}
	}
	if len(left) > 0 {
		w.t.Errorf("%d of %d pods do not run any more", len(left), len(uids))
	}
}

// losesAMember: a member of a base gang is lost while the gang waits for the kube-scheduler. Its successor cannot join the tree, so the
// gang is requeued, and starts as a new one.
func losesAMember(ctx context.Context, e environment) {
	GinkgoHelper()
	w := e.newWorld(ctx, "loses", racks(2, 8, "a/r0", "a/r1")...)
	Expect(w.cluster.StopComponent(ctx, "kube-scheduler")).To(Succeed())
	dgd := w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)})
	dgd.Annotations = map[string]string{render.AnnotationProvider: specs.PodGroup.Name}
	w.create(dgd)
	w.hasCondition("g", placed, metav1.ConditionTrue, "AllReplicasPlaced")
	w.replaced("Worker", 2, func() { w.deletePod("g-worker-0-1") })
	w.until("the frontend's gang is requeued", func() error {
		for _, event := range list(w, &eventsv1.EventList{}).Items {
			if event.Reason == "Requeued" && event.Regarding.Name == "g" && (strings.Contains(event.Note, "g-frontend-0 could not be bound: its gang has 1 of 2 pod groups") ||
				strings.Contains(event.Note, "g-frontend-0 could not be bound: 0 of the 2 pods of g-")) { // the group of the lost pods is not collected yet
				return nil
			}
		}
		return errors.New("no event says so")
	})
	Expect(w.cluster.StartComponent(ctx, "kube-scheduler")).To(Succeed())
	w.ready("g")
}
