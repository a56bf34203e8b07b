// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	quotacontroller "github.com/trellis-k8s/trellis/internal/controller/quota"
	"github.com/trellis-k8s/trellis/internal/quota"
)

// quotaOf is what Kueue has given a deployment in one of its queues; nil for one that is in none.
func (r *Reconciler) quotaOf(ctx context.Context, o observed) (*quota.Report, error) {
	if !quotacontroller.Concerns(o.dgd) {
		return nil, nil
	}
	of := quota.Observation{DGD: o.dgd, Groups: inOrder(o)}
	own, why := quotacontroller.Reader(ctx, r.Providers)
	if own == nil {
		return of.WhileUnread(why), nil
	}
	var err error
	if of.Workloads, err = quotacontroller.Workloads(ctx, own, client.ObjectKeyFromObject(o.dgd), o.dgd.UID); err != nil {
		return nil, err
	}
	return of.Report(), nil
}

// quotaCondition reports whether the deployment has quota in its queue.
func quotaCondition(o observed) *condition {
	if o.quota == nil {
		return nil
	}
	return &condition{kind: nvidiav1beta1.ConditionQuotaReserved, is: o.quota.Reserved, reason: o.quota.Reason, message: o.quota.Message}
}
