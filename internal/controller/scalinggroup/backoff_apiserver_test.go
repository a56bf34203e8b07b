// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// failing is a group of one replica whose pod ends as soon as it is there, on a clock that the spec moves. The clock runs from the API server's
// time on, which creation times are of.
type failing struct {
	*server
	clock time.Time
	made  map[string]bool
}

func newFailing(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) *failing {
	GinkgoHelper()
	f := &failing{server: newServer(ctx), clock: time.Now(), made: map[string]bool{}}
	f.r.refusals.now = func() time.Time { return f.clock }
	Expect(f.c.Create(ctx, f.startable(sg))).To(Succeed())
	return f
}

// second passes: the group is looked at five times, and every pod that there is fails. The API server's clock, by which pods are created, does
// not follow the test's: a pod is as old as the time it is dated back to.
func (f *failing) second() {
	GinkgoHelper()
	for range 5 {
		Expect(f.reconcile()).To(Succeed())
		for _, pod := range f.pods() {
			f.made[string(pod.UID)] = true
			if pod.Status.Phase == corev1.PodFailed {
				continue
			}
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}}}
			Expect(f.c.Status().Update(f.ctx, &pod)).To(Succeed())
		}
		f.age()
	}
	f.clock = f.clock.Add(time.Second)
}

// age makes the stored failures a second older than any pod, as they are when the clocks run together.
func (f *failing) age() {
	sg := f.group()
	for i := range sg.Status.FailedReplicas {
		sg.Status.FailedReplicas[i].NewestPod = metav1.NewTime(time.Now().Add(-time.Hour))
	}
	Expect(f.c.Status().Update(f.ctx, sg)).To(Succeed())
}

func (f *failing) health() *metav1.Condition {
	return meta.FindStatusCondition(f.group().Status.Conditions, trellisv1alpha1.ConditionPodsHealthy)
}

var _ = Describe("A replica whose pod fails at once", func() {
	It("is recreated after 1, 2, 4, 8 and 16 seconds, also by an operator that was restarted, and the condition tells until when it waits", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		f := newFailing(ctx, group(1, 1))
		for second := range 25 {
			if second%5 == 4 { // a restart of the operator: nothing in memory
				f.r.refusals.byGroup = nil
			}
			f.second()
		}
		Expect(len(f.made)).To(And(BeNumerically(">=", 4), BeNumerically("<=", 6)), "pods that were made in 25 seconds")
		Expect(f.reconcile()).To(Succeed())
		c := f.health()
		Expect(c).To(And(HaveField("Reason", trellisv1alpha1.ReasonReplicaFailed), HaveField("Message", And(
			ContainSubstring("times in succession, it is recreated at 20"), HaveSuffix("pod g-worker-0: container main exited with code 3 (Error)"),
		))))
		result, err := f.r.Reconcile(ctx, f.request())
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", 20*time.Second)), "it looks again")
	})

	It("has its failure stored before the pod is deleted, and counted once", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		f := newFailing(ctx, group(1, 1))
		Expect(f.reconcile()).To(Succeed())
		pod := f.pods()[0]
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "OutOfcpu", "Node didn't have enough resource: cpu"
		Expect(f.c.Status().Update(ctx, &pod)).To(Succeed())
		refusing := &refusingDeletes{Client: f.c}
		f.r.Client = refusing
		Expect(f.reconcile()).NotTo(Succeed(), "the deletion was not refused")
		want := []trellisv1alpha1.FailedReplica{{
			Failures: 1, Reason: "pod g-worker-0: OutOfcpu: Node didn't have enough resource: cpu", NewestPod: pod.CreationTimestamp, Revision: "new",
			RetryAt: metav1.NewTime(f.clock.Add(2*time.Second - 1).Truncate(time.Second)),
		}}
		Expect(cmp.Diff(want, f.group().Status.FailedReplicas)).To(BeEmpty(), "failures (-want +got)")
		f.clock = f.clock.Add(10 * time.Second)
		_ = f.reconcile() // the same pod again
		Expect(cmp.Diff(want, f.group().Status.FailedReplicas)).To(BeEmpty(), "one failure was counted twice (-want +got)")
	})

	It("has no failures any more when it has been Ready for long, or is of a new revision", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		f := newFailing(ctx, group(1, 1))
		for range 4 {
			f.second()
		}
		f.clock = f.clock.Add(time.Minute)
		Expect(f.reconcile()).To(Succeed())
		pod := f.pods()[0]
		pod.Spec.NodeName = ""
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(f.clock)}}}
		Expect(f.c.Status().Update(ctx, &pod)).To(Succeed())
		result, err := f.r.Reconcile(ctx, f.request())
		Expect(err).NotTo(HaveOccurred())
		Expect(f.group().Status.FailedReplicas).To(HaveLen(1), "just Ready")
		Expect(result.RequeueAfter).To(And(BeNumerically(">", settledAfter-2*time.Second), BeNumerically("<=", settledAfter)), "just Ready: the next look")
		Expect(f.health()).To(BeNil(), "a Ready replica")
		f.clock = f.clock.Add(settledAfter)
		Expect(f.reconcile()).To(Succeed())
		Expect(f.group().Status.FailedReplicas).To(BeEmpty(), "failures after %v Ready", settledAfter)
		f.second()
		sg := f.group()
		Expect(sg.Status.FailedReplicas).To(ConsistOf(HaveField("Failures", BeEquivalentTo(1))))
		sg.Spec.Revision = "newer"
		Expect(f.c.Update(ctx, sg)).To(Succeed())
		Expect(f.reconcile()).To(Succeed())
		Expect(f.reconcile()).To(Succeed())
		Expect(f.pods()).To(HaveLen(1), "a new revision")
		Expect(f.group().Status.FailedReplicas).To(BeEmpty(), "a new revision")
	})
})

// refusingDeletes refuses to delete pods.
type refusingDeletes struct{ client.Client }

func (refusingDeletes) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errors.New("refused by the spec")
}
