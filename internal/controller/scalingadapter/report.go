// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalingadapter

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/controller/statuspatch"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/replicas"
)

// report writes the changed statuses of all adapters that name the deployment.
func (r *Reconciler) report(ctx context.Context, o observed, out outcome) error {
	var failures []error
	for i := range o.adapters {
		a := &o.adapters[i]
		if a.DeletionTimestamp != nil {
			continue
		}
		status := r.statusOf(o, a, out)
		if equality.Semantic.DeepEqual(a.Status, status) {
			continue
		}
		written, err := statuspatch.Write(ctx, r.Client, a.DeepCopy(), status)
		if err != nil {
			failures = append(failures, fmt.Errorf("writing the status of scaling adapter %s: %w", a.Name, err))
			continue
		}
		if !written {
			continue
		}
		if c := meta.FindStatusCondition(status.Conditions, nvidiav1beta1.ConditionActive); c.Status != metav1.ConditionTrue && news(a, c) {
			r.Recorder.Eventf(a, nil, corev1.EventTypeWarning, c.Reason, "Report", "%s", c.Message)
		}
	}
	return errors.Join(failures...)
}

func news(a *adapter, now *metav1.Condition) bool {
	before := meta.FindStatusCondition(a.Status.Conditions, now.Type)
	return before == nil || before.Status != now.Status || before.Reason != now.Reason
}

func (r *Reconciler) statusOf(o observed, a *adapter, out outcome) nvidiav1beta1.DynamoGraphDeploymentScalingAdapterStatus {
	status := *a.Status.DeepCopy()
	status.ObservedGeneration = a.Generation
	status.Replicas, status.Selector = 0, ""
	meta.SetStatusCondition(&status.Conditions, active(o, a, out))
	component := a.Spec.DGDRef.ComponentName
	if o.dgd == nil || !replicas.Owns(a, o.dgd) {
		return status
	}
	if sg := o.groups[component]; sg != nil {
		status.Replicas, status.Selector = sg.Status.Replicas, render.OnePodPerReplica(sg)
	}
	if out.scaled[component] {
		status.LastScaleTime = ptr.To(metav1.NewTime(r.Clock.Now()).Rfc3339Copy())
	}
	return status
}

func active(o observed, a *adapter, out outcome) metav1.Condition {
	c := metav1.Condition{Type: nvidiav1beta1.ConditionActive, Status: metav1.ConditionFalse, ObservedGeneration: a.Generation}
	component := a.Spec.DGDRef.ComponentName
	switch why, refused := out.refused[component]; {
	case o.dgd == nil || !replicas.Owns(a, o.dgd):
		c.Reason, c.Message = nvidiav1beta1.ReasonNotInUse, "nothing follows this adapter: "+whyIdle(o.dgd, a)
	case refused:
		c.Reason = nvidiav1beta1.ReasonReplicasRefused
		c.Message = limit.Text(fmt.Sprintf("the component keeps %d replicas: %d are refused: %s", replicas.Of(o.dgd.Component(component)),
			a.Spec.Replicas, why), limit.Condition)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, nvidiav1beta1.ReasonOwnsReplicas
		c.Message = fmt.Sprintf("%s of DynamoGraphDeployment %q follows this adapter", field.Component(-1, component).Child("replicas"),
			o.dgd.Name)
		if why := out.failed[component]; why != "" {
			c.Message = limit.Text(fmt.Sprintf("%s; %d replicas are not written yet, and are retried: %s", c.Message, a.Spec.Replicas, why),
				limit.Condition)
		}
	}
	return c
}
