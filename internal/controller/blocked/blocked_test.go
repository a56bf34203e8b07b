// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package blocked

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// However often it failed, it is tried again within MaxRetry.
func TestRetriesAreBounded(t *testing.T) {
	limiter := Options(1, Retries{}).RateLimiter
	request := reconcile.Request{}
	for range 60 {
		if got := limiter.When(request); got > MaxRetry {
			t.Fatalf("after %d failures the next try is %s away", limiter.NumRequeues(request), got)
		}
	}
	if got := limiter.When(request); got != MaxRetry {
		t.Errorf("after many failures the next try is %s away, want %s", got, MaxRetry)
	}
}

func TestQuotaEased(t *testing.T) {
	quota := func(hard, used string) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{}, Used: corev1.ResourceList{}}}
		if hard != "" {
			q.Status.Hard[corev1.ResourcePods] = resource.MustParse(hard)
			q.Status.Used[corev1.ResourcePods] = resource.MustParse(used)
		}
		return q
	}
	tests := map[string]struct {
		before, now *corev1.ResourceQuota
		want        bool
	}{
		"raised":         {quota("2", "2"), quota("4", "2"), true},
		"lowered":        {quota("4", "2"), quota("2", "2"), false},
		"less is used":   {quota("2", "2"), quota("2", "1"), true},
		"more is used":   {quota("2", "1"), quota("2", "2"), false},
		"no limit":       {quota("2", "2"), quota("", ""), true},
		"limited now":    {quota("", ""), quota("2", "2"), false},
		"nothing of all": {quota("2", "2"), quota("2", "2"), false},
	}
	for name, tc := range tests {
		if got := QuotaEased().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.now}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !QuotaEased().Delete(event.DeleteEvent{Object: quota("2", "2")}) || QuotaEased().Create(event.CreateEvent{Object: quota("2", "2")}) {
		t.Error("a quota that goes allows more, one that comes does not")
	}
}
