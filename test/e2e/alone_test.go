// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// deleteWebhooks deletes the webhook configurations and waits until the API server has noticed. From then on the first process converts between the
// versions, whether or not an operator is there.
func (e environment) deleteWebhooks(ctx context.Context) {
	GinkgoHelper()
	Expect(e.convertBy(ctx, common.Converter)).To(Succeed())
}

// convertBy has a server convert between the versions, and deletes the webhook configurations.
func (e environment) convertBy(ctx context.Context, server conversion.Address) error {
	if err := server.TakeOver(ctx, e.c); err != nil {
		return err
	}
	for _, o := range []client.Object{&admissionv1.ValidatingWebhookConfiguration{}, &admissionv1.MutatingWebhookConfiguration{}} {
		if err := e.c.DeleteAllOf(ctx, o); err != nil {
			return err
		}
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, suite.Patience(), true, func(ctx context.Context) (bool, error) {
		probe := &nvidiav1alpha1.DynamoGraphDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "probe"},
			Spec:       nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*nvidiav1alpha1.ServiceSpec{"Worker": worker(1, 1, 1, "")}},
		}
		last = e.c.Create(ctx, probe, client.DryRunAll)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("admission still asks the webhooks: %w", last)
	}
	return nil
}

// restoredOnFailure starts the operator again when a spec that stops it has failed: others may share the sandbox.
func (e environment) restoredOnFailure() {
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			_ = e.cluster.StartManager(ctx, sandbox.ManagerOptions{}) // or it runs
		}
	}, NodeTimeout(suite.Patience()))
}

func (e environment) stopOperator(ctx context.Context) {
	GinkgoHelper()
	e.restoredOnFailure()
	Expect(e.cluster.StopManager(ctx, sandbox.DefaultManager)).To(Succeed())
}

var _ = Describe("The operator", func() {
	// The operator goes away under running graphs, returns to wrong objects, and is uninstalled at last. Each step leaves the pods that
	// run alone, and nothing is left that cannot be deleted.
	It("goes away under running graphs and is uninstalled: what runs is left alone, and all can be deleted", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "alone")
		w := e.newWorld(ctx, "alone", racks(2, 8, "a/r0", "b/r0")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("g")
		before := w.uids()

		By("while the operator is down, admission fails closed and says what cannot be reached; deletion does not ask")
		e.stopOperator(ctx)
		err := e.c.Create(ctx, w.graphOf("closed", "zone", services{"Worker": worker(1, 1, 1, "")}))
		Expect(err).To(MatchError(ContainSubstring("trellis.dev")))

		By("with the webhooks gone as well, the schema still refuses what it can")
		e.deleteWebhooks(ctx)
		withProfile := w.graphOf("profile-on-service", "zone", services{"Worker": worker(1, 1, 1, "rack")})
		withProfile.Spec.Services["Worker"].TopologyConstraint.TopologyProfile = w.name
		Expect(e.c.Create(ctx, withProfile)).To(MatchError(ContainSubstring("topologyProfile must not be set on a service")))
		constraint := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"topologyConstraint":{"packDomain":"rack"}}}`))
		Expect(e.c.Patch(ctx, w.dgd("g"), constraint)).To(MatchError(ContainSubstring("immutable")))

		By("what only the webhook would have refused is reported on status once the operator is back, and what runs goes on running")
		w.create(w.graphOf("unknown-domain", "moon", services{"Worker": worker(1, 1, 1, "")}))
		broader := w.graphOf("broader", "rack", services{"Worker": worker(1, 1, 1, "zone")})
		w.create(broader)
		annotate := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"nvidia.com/vllm-distributed-executor-backend":"carrier-pigeon"}}}`))
		Expect(e.c.Patch(ctx, w.dgd("g"), annotate)).To(Succeed())
		Expect(e.cluster.StartManager(ctx, sandbox.ManagerOptions{Args: []string{"--webhooks=false"}})).To(Succeed())
		w.hasCondition("unknown-domain", nvidiav1alpha1.ConditionValid, metav1.ConditionFalse, "Invalid", "packDomain not found in cluster topology", "moon")
		w.hasCondition("broader", nvidiav1alpha1.ConditionValid, metav1.ConditionFalse, "Invalid", "hierarchy violation")
		w.hasCondition("g", nvidiav1alpha1.ConditionValid, metav1.ConditionFalse, "Invalid", "carrier-pigeon")
		Expect(w.uids()).To(haveAllOf(before), "a pod that ran before the object became invalid is gone")
		mend := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"nvidia.com/vllm-distributed-executor-backend":null}}}`))
		Expect(e.c.Patch(ctx, w.dgd("g"), mend)).To(Succeed())
		w.ready("g")

		By("uninstalled while deployments exist, everything of theirs can still be deleted, by ownership alone")
		e.stopOperator(ctx)
		for _, name := range []string{"g", "unknown-domain", "broader"} {
			Expect(e.c.Delete(ctx, w.dgd(name))).To(Succeed())
		}
		w.until("everything is gone", func() error {
			left := len(list(w, &corev1.PodList{}).Items) + len(list(w, &trellisv1alpha1.ScalingGroupList{}).Items) +
				len(list(w, &nvidiav1alpha1.DynamoGraphDeploymentList{}).Items) + len(list(w, &corev1.ServiceList{}).Items)
			if left > 0 {
				return fmt.Errorf("%d objects are left", left)
			}
			return nil
		})
	}, SpecTimeout(suite.Timeout()))

	// The operator is killed in the middle of its work, again and again. No other spec runs meanwhile.
	It("is killed again and again while graphs are placed, and places all of them", suite.Core, Serial, func(ctx SpecContext) {
		e := shared.open(ctx)
		w := e.newWorld(ctx, "killed", racks(4, 8, "a/r0", "a/r1", "b/r0")...)
		e.restoredOnFailure()
		for _, name := range []string{"one", "two", "three"} {
			w.create(w.graphOf(name, "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
			Expect(e.cluster.KillManager(ctx, sandbox.DefaultManager)).To(Succeed())
			Expect(e.cluster.StartManager(ctx, sandbox.ManagerOptions{})).To(Succeed())
		}
		for _, name := range []string{"one", "two", "three"} {
			w.ready(name)
		}
		Expect(w.all()).To(HaveLen(9))
	}, SpecTimeout(suite.Timeout()))

	// With two replicas only the leader acts, and the standby is ready for admission. When the leader ends, the standby takes over.
	It("has a standby that takes over when the leader ends", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "standby")
		w := e.newWorld(ctx, "standby", racks(2, 8, "a/r0")...)
		e.stopOperator(ctx)
		elect := []string{"--leader-elect=true"}
		for _, name := range []string{sandbox.DefaultManager, "standby"} {
			Expect(e.cluster.StartManager(ctx, sandbox.ManagerOptions{Name: name, Args: elect})).To(Succeed(), "%s has to get ready whether or not it leads", name)
		}
		e.stopOperator(ctx)
		e.deleteWebhooks(ctx) // they lead to the first replica; on a cluster the Service leads to whichever is ready
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		Expect(e.cluster.StopManager(ctx, "standby")).To(Succeed())
	}, SpecTimeout(suite.Timeout()))
})
