// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	quotacontroller "github.com/trellis-k8s/trellis/internal/controller/quota"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// dependsOnOthers reports whether the pods of a group depend on another system, which creates them or admits them to a queue.
func (r *Reconciler) dependsOnOthers(sg *trellisv1alpha1.ScalingGroup) bool {
	return r.Providers.Workload(sg.Spec.Provider) != nil || sg.Spec.Workload != "" || quota.QueueOf(sg) != ""
}

// stepsFor turns a plan into steps that the group's provider and Kueue queue allow.
func (p *pass) stepsFor(ctx context.Context, next rollout.Plan) {
	if p.queue.closed {
		next = next.OnlyScaleIn()
	}
	p.steps = p.fit(ctx, next)
	if p.queue.named || slices.ContainsFunc(p.pods.own, func(pod *corev1.Pod) bool { return quota.WorkloadOf(pod) != "" }) {
		p.steps.replaceUnqueued(p.sg, p.replicas)
	}
	p.queue.enqueue(p.sg, p.pods.own, &p.steps)
}

// judge sets the fields noQuota and keepsQuota of the replicas while the group is being updated or replicas move.
func (q *queue) judge(sg *trellisv1alpha1.ScalingGroup, own []*corev1.Pod, replicas map[int32]*replica) {
	updating := len(sg.Status.Moves) > 0
	for _, r := range replicas {
		updating = updating || r.outdated
	}
	if !updating || !q.named || q.closed {
		return
	}
	joining := quota.Join(sg, q.groups, own, q.workloads)
	for _, r := range replicas {
		if pods := r.active(); len(pods) > 0 {
			r.noQuota, r.keepsQuota = joining.Denied(pods[0]), joining.Keeps(pods[0])
		}
	}
}

// queue is the state of a group's Kueue queue, as far as it concerns new pods.
type queue struct {
	// named: the group has a queue.
	named bool
	// closed: no new pod can join a Workload. The controller then creates nothing, and removes only replicas that need no successor.
	closed bool
	// groups and workloads are all scaling groups and Workloads of the deployment.
	groups    []*trellisv1alpha1.ScalingGroup
	workloads []*quota.Workload
}

// queueOf reads the queue of a group. The queue is closed while the operator cannot read Workloads, because a pod without its Workload
// would have no quota, or would cause the termination of pods that have quota. The queue is also closed while Trellis requests no quota for
// the deployment, and while the base Workload does not exist because a scaling group is missing.
func (r *Reconciler) queueOf(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (queue, error) {
	if quota.QueueOf(sg) == "" {
		return queue{}, nil
	}
	reader, _ := quotacontroller.Reader(ctx, r.Providers)
	if reader == nil {
		return queue{named: true, closed: true}, nil
	}
	return readQueue(ctx, r.Client, sg, reader)
}

func readQueue(ctx context.Context, c client.Reader, sg *trellisv1alpha1.ScalingGroup, from client.Reader) (queue, error) {
	q := queue{named: true}
	var err error
	if q.groups, err = groupsOf(ctx, c, sg); err != nil {
		return q, err
	}
	if refused := (&quota.Observation{Groups: q.groups}).Refused(); refused != nil {
		q.closed = true
		return q, nil
	}
	owner := metav1.GetControllerOfNoCopy(sg)
	if owner == nil {
		return q, nil
	}
	name := types.NamespacedName{Namespace: sg.Namespace, Name: owner.Name}
	if q.workloads, err = quotacontroller.Workloads(ctx, from, name, owner.UID); err != nil || quota.BaseAmong(q.workloads, q.groups) != nil {
		return q, err
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	err = c.Get(ctx, name, dgd)
	q.closed = err != nil || gang.MissingGroups(dgd, q.groups)
	return q, client.IgnoreNotFound(err)
}

// enqueue adds the new pods of a queued group to their Workloads.
func (q *queue) enqueue(sg *trellisv1alpha1.ScalingGroup, own []*corev1.Pod, s *steps) {
	if !q.named || len(s.create) == 0 {
		return
	}
	if quota.BaseEnds(q.workloads, q.groups) {
		s.create = nil // the end of the base Workload triggers the next reconcile
		return
	}
	joining := quota.Join(sg, q.groups, own, q.workloads)
	for _, pod := range s.create {
		joining.Add(pod)
	}
}

// groupsOf lists all scaling groups of the group's deployment, or only the group itself if no deployment owns it.
func groupsOf(ctx context.Context, c client.Reader, sg *trellisv1alpha1.ScalingGroup) ([]*trellisv1alpha1.ScalingGroup, error) {
	owner := metav1.GetControllerOf(sg)
	if owner == nil {
		return []*trellisv1alpha1.ScalingGroup{sg}, nil
	}
	return scheduler.GroupsOf(ctx, c, sg.Namespace, owner.UID, client.DisableReadYourWritesConsistency)
}

// siblings returns, for a group in a queue, all scaling groups of its deployment, because these groups wait for one another; none for a
// group without a queue.
func (r *Reconciler) siblings(ctx context.Context, o client.Object) []reconcile.Request {
	sg := o.(*trellisv1alpha1.ScalingGroup)
	if quota.QueueOf(sg) == "" {
		return nil
	}
	groups, err := groupsOf(ctx, r.Client, sg)
	if err != nil {
		log.FromContext(ctx).Error(err, "listing the scaling groups that wait for another", "group", sg.Name)
		return nil
	}
	return requestsFor(groups)
}

func requestsFor(groups []*trellisv1alpha1.ScalingGroup) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(groups))
	for _, one := range groups {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(one)})
	}
	return out
}

// replaceUnqueued replaces replicas whose pods are all gated if one of the pods is not in the group's queue, or is in a queue although the
// group has none.
func (s *steps) replaceUnqueued(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) {
	for _, ordinal := range slices.Sorted(maps.Keys(replicas)) {
		pods := replicas[ordinal].active()
		begun := func(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) == 0 }
		suits := func(pod *corev1.Pod) bool { return quota.Suits(sg, pod) }
		if len(pods) > 0 && !slices.ContainsFunc(pods, begun) && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !suits(pod) }) {
			s.replace(sg, replicas[ordinal], "its deployment is in another queue of Kueue, or in none any more")
		}
	}
}
