// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/replicas"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// adapterValidator refuses replicas in a DynamoGraphDeploymentScalingAdapter, or in its scale subresource, that would exceed the graph's
// pod limit or fall below the component's minAvailable. It allows 0 and unchanged replicas without reading any object.
type adapterValidator struct {
	live    client.Reader
	maxPods int64
}

var _ admission.Handler = &adapterValidator{}

// scaleRequest is a request to change the replicas of one component.
type scaleRequest struct {
	replicas, before int32
	graph, component string
}

// Handle implements admission.Handler. After a failed read, it allows the request with a warning, because the replicas are checked again
// when they are copied to the deployment.
func (v *adapterValidator) Handle(ctx context.Context, req admission.Request) admission.Response {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	asked, err := v.asked(ctx, req)
	switch {
	case errors.As(err, new(*json.SyntaxError)), errors.As(err, new(*json.UnmarshalTypeError)):
		return admission.Errored(http.StatusBadRequest, err)
	case err != nil:
		return unchecked(err)
	case asked.replicas == asked.before, asked.replicas == 0:
		return admission.Allowed("")
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	err = v.live.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: asked.graph}, dgd)
	if apierrors.IsNotFound(err) {
		return admission.Allowed("")
	}
	if err != nil {
		return unchecked(err)
	}
	if !replicas.WithAdapter(dgd.Component(asked.component)) {
		return admission.Allowed("")
	}
	errs := validation.ScaleFloor(dgd, asked.component, asked.replicas)
	if asked.replicas > asked.before {
		errs = append(errs, validation.ScaleLimit(dgd, asked.component, asked.replicas, v.maxPods)...)
	}
	if len(errs) > 0 {
		return answer(req, nvidiav1alpha1.GroupVersion.WithKind("DynamoGraphDeploymentScalingAdapter"), errs.In(versionOf(req)), nil)
	}
	return admission.Allowed("")
}

// asked reads the request. For a Scale, it reads the component from the adapter of the same name.
func (v *adapterValidator) asked(ctx context.Context, req admission.Request) (scaleRequest, error) {
	if req.SubResource == "scale" {
		now, before := autoscalingv1.Scale{}, autoscalingv1.Scale{}
		if err := decode(req, &now, &before); err != nil || now.Spec.Replicas == before.Spec.Replicas || now.Spec.Replicas == 0 {
			return scaleRequest{}, err
		}
		adapter := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}
		if err := v.live.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, adapter); err != nil {
			return scaleRequest{}, err
		}
		return scaleRequest{now.Spec.Replicas, before.Spec.Replicas, adapter.Spec.DGDRef.Name, adapter.Spec.DGDRef.ComponentName}, nil
	}
	if req.Kind.Version == nvidiav1beta1.GroupVersion.Version {
		now, before := nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}, nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}
		err := decode(req, &now, &before)
		return scaleRequest{now.Spec.Replicas, before.Spec.Replicas, now.Spec.DGDRef.Name, now.Spec.DGDRef.ComponentName}, err
	}
	now, before := nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{}, nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{}
	err := decode(req, &now, &before)
	return scaleRequest{now.Spec.Replicas, before.Spec.Replicas, now.Spec.DGDRef.Name, now.Spec.DGDRef.ServiceName}, err
}

func decode(req admission.Request, now, before any) error {
	if err := json.Unmarshal(req.Object.Raw, now); err != nil {
		return err
	}
	if req.Operation == admissionv1.Create {
		return nil
	}
	return json.Unmarshal(req.OldObject.Raw, before)
}

func unchecked(err error) admission.Response {
	return admission.Allowed("").WithWarnings(fmt.Sprintf("the number of pods was not checked: %v", err))
}
