// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// Placed returns the condition Placed of a deployment; nil if the deployment has no such condition. While the deployment waits for quota
// from Kueue, Placed adds the message about the quota.
func Placed(dgd *nvidiav1beta1.DynamoGraphDeployment) *metav1.Condition {
	placed := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1beta1.ConditionPlaced)
	quota := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1beta1.ConditionQuotaReserved)
	if placed == nil || placed.Reason != gang.CodeWaitingForAdmission || quota == nil || quota.Status != metav1.ConditionFalse {
		return placed
	}
	both := *placed
	both.Message += ". " + quota.Type + " is False, " + quota.Reason + ": " + quota.Message
	return &both
}
