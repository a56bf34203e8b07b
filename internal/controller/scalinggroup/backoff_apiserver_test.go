// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// failing is a group of one replica whose pod ends as soon as it is there, on a clock that the test moves. The clock runs from the API server's
// time on, which creation times are of.
type failing struct {
	*server
	clock time.Time
	made  map[string]bool
}

func newFailing(t *testing.T, sg *trellisv1alpha1.ScalingGroup) *failing {
	t.Helper()
	f := &failing{server: newServer(t), clock: time.Now(), made: map[string]bool{}}
	f.r.refusals.now = func() time.Time { return f.clock }
	f.must(f.c.Create(t.Context(), f.startable(sg)))
	return f
}

// second passes: the group is looked at five times, and every pod that there is fails. The API server's clock, by which pods are created, does
// not follow the test's: a pod is as old as the time it is dated back to.
func (f *failing) second() {
	f.t.Helper()
	for range 5 {
		f.must(f.reconcile())
		for _, pod := range f.pods() {
			f.made[string(pod.UID)] = true
			if pod.Status.Phase == corev1.PodFailed {
				continue
			}
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}}}
			f.must(f.c.Status().Update(f.t.Context(), &pod))
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
	f.must(f.c.Status().Update(f.t.Context(), sg))
}

func (f *failing) health() *metav1.Condition {
	return meta.FindStatusCondition(f.group().Status.Conditions, trellisv1alpha1.ConditionPodsHealthy)
}

// A replica whose pod fails at once is recreated after 1, 2, 4, 8 and 16 seconds, also by an operator that was restarted, and the condition says
// which replica waits, for what, and until when.
func TestFailingReplicaIsRecreatedEverMoreRarely(t *testing.T) {
	f := newFailing(t, group(1, 1))
	for second := range 25 {
		if second%5 == 4 { // a restart of the operator: nothing in memory
			f.r.refusals.byGroup = nil
		}
		f.second()
	}
	if got := len(f.made); got < 4 || got > 6 {
		t.Errorf("%d pods were made in 25 seconds, want about 5", got)
	}
	f.must(f.reconcile())
	c := f.health()
	if c == nil || c.Reason != trellisv1alpha1.ReasonReplicaFailed || !strings.Contains(c.Message, "times in succession, it is recreated at 20") ||
		!strings.HasSuffix(c.Message, "pod g-worker-0: container main exited with code 3 (Error)") {
		t.Errorf("PodsHealthy = %+v", c)
	}
	result, err := f.r.Reconcile(t.Context(), f.request())
	f.must(err)
	if result.RequeueAfter <= 0 || result.RequeueAfter > 20*time.Second {
		t.Errorf("it looks again after %v", result.RequeueAfter)
	}
}

// The failures are stored before the pod is deleted: an operator that dies between the two finds them.
func TestFailureIsStoredBeforeItsPodIsDeleted(t *testing.T) {
	f := newFailing(t, group(1, 1))
	f.must(f.reconcile())
	pod := f.pods()[0]
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "OutOfcpu", "Node didn't have enough resource: cpu"
	f.must(f.c.Status().Update(t.Context(), &pod))
	refusing := &refusingDeletes{Client: f.c}
	f.r.Client = refusing
	if err := f.reconcile(); err == nil {
		t.Fatal("the deletion was not refused")
	}
	want := []trellisv1alpha1.FailedReplica{{
		Failures: 1, Reason: "pod g-worker-0: OutOfcpu: Node didn't have enough resource: cpu", NewestPod: pod.CreationTimestamp, Revision: "new",
		RetryAt: metav1.NewTime(f.clock.Add(2*time.Second - 1).Truncate(time.Second)),
	}}
	if diff := cmp.Diff(want, f.group().Status.FailedReplicas); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	f.clock = f.clock.Add(10 * time.Second)
	_ = f.reconcile() // the same pod again
	if diff := cmp.Diff(want, f.group().Status.FailedReplicas); diff != "" {
		t.Errorf("one failure was counted twice (-want +got):\n%s", diff)
	}
}

// A replica that has been Ready for long has no failures to its name any more, and a new revision begins without any.
func TestFailuresAreForgotten(t *testing.T) {
	f := newFailing(t, group(1, 1))
	for range 4 {
		f.second()
	}
	f.clock = f.clock.Add(time.Minute)
	f.must(f.reconcile())
	pod := f.pods()[0]
	pod.Spec.NodeName = ""
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(f.clock)}}}
	f.must(f.c.Status().Update(t.Context(), &pod))
	result, err := f.r.Reconcile(t.Context(), f.request())
	f.must(err)
	if got := f.group().Status.FailedReplicas; len(got) != 1 || result.RequeueAfter <= settledAfter-2*time.Second || result.RequeueAfter > settledAfter {
		t.Errorf("just Ready: failures %+v, next look after %v", got, result.RequeueAfter)
	}
	if c := f.health(); c != nil {
		t.Errorf("a Ready replica: PodsHealthy = %+v", c)
	}
	f.clock = f.clock.Add(settledAfter)
	f.must(f.reconcile())
	if got := f.group().Status.FailedReplicas; len(got) != 0 {
		t.Errorf("failures after %v Ready: %+v", settledAfter, got)
	}
	f.second()
	sg := f.group()
	if len(sg.Status.FailedReplicas) != 1 || sg.Status.FailedReplicas[0].Failures != 1 {
		t.Fatalf("failures %+v", sg.Status.FailedReplicas)
	}
	sg.Spec.Revision = "newer"
	f.must(f.c.Update(t.Context(), sg))
	f.must(f.reconcile())
	f.must(f.reconcile())
	if pods := f.pods(); len(pods) != 1 || len(f.group().Status.FailedReplicas) != 0 {
		t.Errorf("a new revision: %d pods, failures %+v", len(pods), f.group().Status.FailedReplicas)
	}
}

// refusingDeletes refuses to delete pods.
type refusingDeletes struct{ client.Client }

func (refusingDeletes) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errors.New("refused by the test")
}
