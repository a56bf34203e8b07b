// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// What Kueue says is told of what waits for admission only, and the deployment that was read is not changed.
func TestPlaced(t *testing.T) {
	placed := func(reason string) metav1.Condition {
		return metav1.Condition{Type: nvidiav1beta1.ConditionPlaced, Status: metav1.ConditionFalse, Reason: reason, Message: "it waits"}
	}
	quota := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: nvidiav1beta1.ConditionQuotaReserved, Status: status, Reason: "QuotaPending", Message: "8 more needed"}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"no condition":            {},
		"it waits for quota":      {[]metav1.Condition{quota(metav1.ConditionFalse), placed(gang.CodeWaitingForAdmission)}, "it waits. QuotaReserved is False, QuotaPending: 8 more needed"},
		"another gate":            {[]metav1.Condition{placed(gang.CodeWaitingForAdmission)}, "it waits"},
		"it has quota":            {[]metav1.Condition{placed(gang.CodeWaitingForAdmission), quota(metav1.ConditionTrue)}, "it waits"},
		"it waits for capacity":   {[]metav1.Condition{placed("InsufficientCapacity"), quota(metav1.ConditionFalse)}, "it waits"},
		"quota alone is reported": {[]metav1.Condition{quota(metav1.ConditionFalse)}, ""},
	} {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		dgd.Status.Conditions = tc.conditions
		got := ""
		for range 2 {
			if c := Placed(dgd); c != nil {
				got = c.Message
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
