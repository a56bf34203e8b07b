// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// A replica with a pod that ended is recreated after a delay that doubles with each consecutive failure. The failures are stored in the
// group's status before the pods are deleted, so that a restart of the operator does not end the delay. The failures are dropped once the
// replica has been Ready for settledAfter, or when the group gets another revision or restart.
const (
	firstRecreate = time.Second
	lastRecreate  = 5 * time.Minute
	settledAfter  = 5 * time.Minute
	// maxFailed is the maximum number of replicas of one group whose failures are stored. While the list is full and a replica on it waits,
	// no replica outside the list is created.
	maxFailed = 256
	// maxWhy bounds the stored reason of a failure, in bytes.
	maxWhy = 200
)

// backOff has the failed replicas, and delays their recreation. failed is sorted by replica.
type backOff struct {
	now    time.Time
	failed []trellisv1alpha1.FailedReplica
	// isNew: a failure is not stored yet.
	isNew bool
	// again is the time until the next failed replica may be recreated, or its failures are dropped; 0 for none.
	again time.Duration
}

// backOffOf updates the stored failures from the pods.
func backOffOf(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, now time.Time) backOff {
	b := backOff{now: now}
	known := map[int32]bool{}
	for _, f := range sg.Status.FailedReplicas {
		if b.current(sg, f, replicas[f.Replica]) {
			known[f.Replica] = true
			b.failed = append(b.failed, f)
		}
	}
	for i := range b.failed {
		b.note(&b.failed[i], replicas[b.failed[i].Replica])
	}
	for _, ordinal := range sortedOrdinals(replicas) {
		if pod := replicas[ordinal].failedPod(); pod != nil && !known[ordinal] && !replicas[ordinal].outdated && len(b.failed) < maxFailed {
			f := trellisv1alpha1.FailedReplica{Replica: ordinal, Revision: sg.Spec.Revision, Restart: restartOf(sg)}
			b.note(&f, replicas[ordinal])
			b.failed = append(b.failed, f)
		}
	}
	slices.SortFunc(b.failed, func(a, c trellisv1alpha1.FailedReplica) int { return cmp.Compare(a.Replica, c.Replica) })
	for _, f := range b.failed {
		if b.waits(f) {
			b.lookAgain(f.RetryAt.Time)
		}
		if since, ready := replicas[f.Replica].readySince(); ready {
			b.lookAgain(since.Add(settledAfter))
		}
	}
	return b
}

// current reports whether a stored failure still applies.
func (b *backOff) current(sg *trellisv1alpha1.ScalingGroup, f trellisv1alpha1.FailedReplica, r *replica) bool {
	if f.Revision != sg.Spec.Revision || f.Restart != restartOf(sg) {
		return false
	}
	if r == nil { // it may no longer be wanted
		return b.now.Before(f.RetryAt.Add(settledAfter))
	}
	since, ready := r.readySince()
	return !ready || b.now.Before(since.Add(settledAfter))
}

// note counts a failure. It skips a failed pod that is not newer than NewestPod, because its failure is counted already. But if all pods
// are older than NewestPod, the API server's clock was set back, and note counts the failure.
func (b *backOff) note(f *trellisv1alpha1.FailedReplica, r *replica) {
	pod := r.failedPod()
	if pod == nil || r.outdated {
		return
	}
	newest := r.newestPod()
	if !pod.CreationTimestamp.After(f.NewestPod.Time) && !newest.Before(&f.NewestPod) {
		return
	}
	f.Failures++
	f.Reason = failureOf(pod, cmp.Or(r.causes[pod.UID].text, whyEnded(pod)))
	f.Hosts = withRejections(f.Hosts, r.rejected())
	f.NewestPod = newest
	delay := min(firstRecreate<<min(f.Failures-1, 20), lastRecreate)
	f.RetryAt = metav1.NewTime(b.now.Add(delay + time.Second - 1).Truncate(time.Second)) // stored in whole seconds
	b.isNew = true
}

// failureOf names the pod and the cause in at most maxWhy bytes. It shortens the kubelet's message, and keeps the reason before it.
func failureOf(pod *corev1.Pod, cause string) string {
	reason, message, described := strings.Cut(cause, ": ")
	head := limit.Text("pod "+pod.Name+onNode(pod)+": "+reason, maxWhy*4/5)
	if !described {
		return head
	}
	return head + ": " + limit.Middle(strings.TrimPrefix(message, "Pod was rejected: "), maxWhy-len(head)-len(": "))
}

// waits reports whether the recreation of a replica is still delayed. It ignores a stored time that is further in the future than the
// longest delay. Such a time comes from another clock, or from before this operator's clock was set back.
func (b *backOff) waits(f trellisv1alpha1.FailedReplica) bool {
	return f.RetryAt.After(b.now) && !f.RetryAt.After(b.now.Add(lastRecreate+time.Second))
}

func (b *backOff) lookAgain(at time.Time) {
	if left := at.Sub(b.now); left > 0 && (b.again == 0 || left < b.again) {
		b.again = left
	}
}

// without returns the plan without the creates of replicas whose recreation is delayed.
func (b *backOff) without(p rollout.Plan) rollout.Plan {
	waits, listed := false, map[int32]bool{}
	for _, f := range b.failed {
		wait := b.waits(f)
		waits, listed[f.Replica] = waits || wait, wait
	}
	full := waits && len(b.failed) >= maxFailed
	p.Make = slices.DeleteFunc(slices.Clone(p.Make), func(ordinal int) bool {
		wait, known := listed[int32(ordinal)]
		return wait || full && !known
	})
	return p
}

// into writes the failures and the condition PodsHealthy into a status.
func (b *backOff) into(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, status *trellisv1alpha1.ScalingGroupStatus) {
	status.FailedReplicas = b.failed
	if c := healthCondition(sg, replicas, *b); c != nil {
		meta.SetStatusCondition(&status.Conditions, *c)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, trellisv1alpha1.ConditionPodsHealthy)
	}
}

// failedPod returns the first pod of the replica, by name, that ended because of the pod itself or its node; nil for none.
func (r *replica) failedPod() *corev1.Pod {
	if r == nil {
		return nil
	}
	var first *corev1.Pod
	for _, pod := range r.lost {
		if pod.DeletionTimestamp == nil && ended(pod) && !displaced(pod) && (first == nil || pod.Name < first.Name) {
			first = pod
		}
	}
	return first
}

// displaced reports whether a component other than the kubelet ended the pod, for example by preemption or eviction, which is not a failure
// of the pod.
func displaced(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason != corev1.PodReasonTerminationByKubelet
	})
}

// newestPod returns the creation time of the replica's newest pod, by the clock of the API server.
func (r *replica) newestPod() metav1.Time {
	var newest metav1.Time
	for _, pod := range slices.Concat(r.active(), r.leaving, r.lost) {
		if pod.CreationTimestamp.After(newest.Time) {
			newest = pod.CreationTimestamp
		}
	}
	return newest
}

// readySince returns the time at which the last pod of a complete replica became Ready; false if the replica is incomplete or not Ready.
func (r *replica) readySince() (since time.Time, ready bool) {
	if r == nil || !r.whole() || len(r.pods) == 0 {
		return since, false
	}
	for _, pod := range r.pods {
		at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if at < 0 {
			return since, false
		}
		if t := pod.Status.Conditions[at].LastTransitionTime.Time; t.After(since) {
			since = t
		}
	}
	return since, true
}

func restartOf(sg *trellisv1alpha1.ScalingGroup) string {
	if sg.Spec.Restart == nil {
		return ""
	}
	return sg.Spec.Restart.ID
}
