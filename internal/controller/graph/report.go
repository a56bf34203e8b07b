// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// report writes the status once, if it changed, and then the events that the change calls for.
func (r *Reconciler) report(ctx context.Context, o observed, status nvidiav1alpha1.DynamoGraphDeploymentStatus) error {
	if equality.Semantic.DeepEqual(o.dgd.Status, status) {
		return nil
	}
	changed := o.dgd.DeepCopy()
	changed.Status = status
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(o.dgd)); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("writing the status: %w", err)
	}
	for _, c := range status.Conditions {
		before := meta.FindStatusCondition(o.dgd.Status.Conditions, c.Type)
		if kind, action := eventFor(before, c); kind != "" {
			r.Recorder.Eventf(o.dgd, nil, kind, c.Reason, action, "%s: %s", c.Type, truncate(c.Message))
		}
	}
	return nil
}

// eventFor: a Warning for each change to False and for each new reason while False, a Normal one for each change to True. That a new
// deployment is not ready yet, or its pods are still being made, is no news, nor is that its engine works.
func eventFor(before *metav1.Condition, now metav1.Condition) (kind, action string) {
	if before != nil && before.Status == now.Status && before.Reason == now.Reason {
		return "", ""
	}
	if now.Reason == nvidiav1alpha1.ReasonRollingOut {
		return corev1.EventTypeNormal, "Report"
	}
	if now.Status == metav1.ConditionTrue {
		if before == nil && now.Type == nvidiav1alpha1.ConditionEngineReady {
			return "", "" // as it should be
		}
		return corev1.EventTypeNormal, "Report"
	}
	isNew := before == nil || before.Status != metav1.ConditionTrue
	switch {
	case now.Reason == scheduler.CodeCreating,
		now.Type == nvidiav1alpha1.ConditionReady && isNew && now.Reason != nvidiav1alpha1.ReasonFailedToReconcile:
		return "", ""
	}
	return corev1.EventTypeWarning, "Report"
}
