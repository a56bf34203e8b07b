// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	quotacontroller "github.com/trellis-k8s/trellis/internal/controller/quota"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// quotaOf returns a deployment's state in Kueue; nil if the deployment was never in a queue.
func (r *Reconciler) quotaOf(ctx context.Context, o observed) (*quota.Report, error) {
	if !quotacontroller.Concerns(o.dgd) {
		return nil, nil
	}
	of := quota.Observation{DGD: o.dgd, Groups: inOrder(o), ChecksDenied: r.ChecksDenied.Why()}
	var err error
	if of.Pods, err = r.podsOf(ctx, o.dgd); err != nil {
		return nil, err
	}
	own, why := quotacontroller.Reader(ctx, r.Providers)
	if own == nil {
		return of.WhileUnread(why), nil
	}
	if of.Workloads, err = quotacontroller.Workloads(ctx, own, client.ObjectKeyFromObject(o.dgd), o.dgd.UID); err != nil {
		return nil, err
	}
	return of.Report(), nil
}

// podsOf returns the pods with the deployment's label, from the cache.
func (r *Reconciler) podsOf(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := r.Client.List(ctx, list, client.InNamespace(dgd.Namespace),
		client.MatchingFields{scheduler.IndexPodsByGraph: render.LabelValue(dgd.Name)})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of deployment %s: %w", dgd.Name, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// quotaCondition reports whether the deployment has quota in its queue.
func quotaCondition(o observed) *condition {
	if o.quota == nil {
		return nil
	}
	return &condition{kind: nvidiav1beta1.ConditionQuotaReserved, is: o.quota.Reserved, reason: o.quota.Reason, message: o.quota.Message}
}
