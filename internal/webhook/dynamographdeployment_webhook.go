// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sfield "k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// readTimeout bounds the time of all reads for one request. It is well below the five seconds that the API server waits.
const readTimeout = 3 * time.Second

var _ admission.Handler = &deploymentValidator{}

var kindDeployment = nvidiav1alpha1.GroupVersion.WithKind("DynamoGraphDeployment")

// +kubebuilder:rbac:groups=grove.io,resources=clustertopologies,verbs=get

// deploymentValidator applies all validation rules for a DynamoGraphDeployment.
type deploymentValidator struct {
	live       client.Reader
	notActedOn func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []render.Ignored
	warnings   func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []field.Text
	// maxPods bounds the pods of one graph; 0 for no limit.
	maxPods int64
	// provider is the operator's setting for deployments that name no provider.
	provider string
}

// Handle implements admission.Handler, for requests in either API version.
func (v *deploymentValidator) Handle(ctx context.Context, req admission.Request) admission.Response {
	ctx = admission.NewContextWithRequest(ctx, req)
	now, err := validation.FromJSON(req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if req.Operation == admissionv1.Create {
		lines, found, unread := v.create(ctx, req, now)
		errs := append(found.In(versionOf(req)), conversionLoses(req.Object.Raw, nil)...)
		if unread != nil && len(errs) == 0 {
			return tryAgain(unread)
		}
		response := answer(req, kindDeployment, errs, lines)
		if unread != nil {
			response = response.WithWarnings(notChecked(unread))
		}
		return response
	}
	before, err := validation.FromJSON(req.OldObject.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	lines, found := v.update(req, before, now)
	errs := found.In(versionOf(req))
	if now.DeletionTimestamp == nil {
		errs = append(errs, conversionLoses(req.Object.Raw, req.OldObject.Raw)...)
	}
	return answer(req, kindDeployment, errs, lines)
}

// create checks a new deployment. Only create reads the ClusterTopology, because a condition reports later changes of the topology. If the
// ClusterTopology cannot be read, unread is the reason, and the checks that need it are skipped.
func (v *deploymentValidator) create(ctx context.Context, req admission.Request, written validation.Written) (lines admission.Warnings,
	errs field.ErrorList, unread error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	dgd := written.DynamoGraphDeployment
	errs = validation.GraphCreate(written)
	topology, unread := v.readTopology(ctx, constraint.TopologyName(dgd))
	if unread == nil {
		errs = append(errs, validation.GraphTopology(dgd, topology)...)
	}
	transfer, err := v.readTopology(ctx, validation.TransferTopologyName(dgd))
	if err == nil {
		errs = append(errs, validation.TransferTopology(dgd, transfer)...)
	}
	errs = append(errs, validation.PodLimit(dgd, nil, v.maxPods)...)
	return v.warn(req, written, topology, v.cliques(ctx, dgd, topology)...), errs, cmp.Or(unread, err)
}

// update checks a change. It returns no warnings if the spec has not changed.
func (v *deploymentValidator) update(req admission.Request, was, is validation.Written) (admission.Warnings, field.ErrorList) {
	old, updated := was.DynamoGraphDeployment, is.DynamoGraphDeployment
	errs := append(validation.GraphUpdate(is, was), validation.PodLimit(updated, old, v.maxPods)...)
	errs = append(errs, validation.ProviderUpdate(updated, old, v.provider)...)
	if updated.DeletionTimestamp != nil || apiequality.Semantic.DeepEqual(updated.Spec, old.Spec) {
		return nil, errs
	}
	return v.warn(req, is, nil, validation.NodeCountWarnings(updated, old)...), errs
}

// versionOf returns the version in which the user wrote the object. Responses use the terms of this version.
func versionOf(req admission.Request) string {
	if req.RequestKind != nil {
		return req.RequestKind.Version
	}
	return req.Kind.Version
}

// warn returns all warnings about a deployment, including the warnings in more.
func (v *deploymentValidator) warn(req admission.Request, dgd validation.Written, topology *grovev1alpha1.ClusterTopology,
	more ...field.Text) admission.Warnings {
	var notActedOn []render.Ignored
	alpha := dgd.AlphaOnly()
	if v.notActedOn != nil {
		notActedOn = v.notActedOn(dgd.DynamoGraphDeployment, alpha)
	}
	if v.warnings != nil {
		more = append(more, v.warnings(dgd.DynamoGraphDeployment, alpha)...)
	}
	return validation.Bounded(append(validation.GraphWarnings(dgd, topology, notActedOn), more...), versionOf(req))
}

// answer allows the request with its warnings, or refuses it with status 422 and one cause per field.
func answer(req admission.Request, kind schema.GroupVersionKind, errs k8sfield.ErrorList, lines admission.Warnings) admission.Response {
	if len(errs) == 0 {
		return admission.Allowed("").WithWarnings(lines...)
	}
	status := apierrors.APIStatus(nil)
	response := admission.Response{}
	if err := invalid(kind, req.Name, errs); errors.As(err, &status) {
		result := status.Status()
		response.Result = &result
	} else {
		response.Result = &metav1.Status{Message: err.Error()}
	}
	return response
}

// invalid returns the error for the user: status 422, with one cause per field.
func invalid(kind schema.GroupVersionKind, name string, errs k8sfield.ErrorList) error {
	return apierrors.NewInvalid(kind.GroupKind(), name, errs)
}
