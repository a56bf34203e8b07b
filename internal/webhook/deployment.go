// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// readTimeout bounds the reads of one request, well inside the five seconds the API server waits for the answer.
const readTimeout = 3 * time.Second

var _ admission.Handler = &deploymentValidator{}

var kindDeployment = nvidiav1alpha1.GroupVersion.WithKind("DynamoGraphDeployment")

// +kubebuilder:rbac:groups=grove.io,resources=clustertopologies,verbs=get

// deploymentValidator asks every rule about a DynamoGraphDeployment.
type deploymentValidator struct {
	live       client.Reader
	notActedOn func(*nvidiav1beta1.DynamoGraphDeployment) []string
	warnings   func(*nvidiav1beta1.DynamoGraphDeployment) []string
	// maxPods bounds the pods of one graph; 0: any number.
	maxPods int64
	// underGrove says that Grove makes the pods of a deployment; nil: of none.
	underGrove func(*nvidiav1beta1.DynamoGraphDeployment) bool
}

// Handle implements admission.Handler, for requests in either version.
func (v *deploymentValidator) Handle(ctx context.Context, req admission.Request) admission.Response {
	ctx = admission.NewContextWithRequest(ctx, req)
	now, err := validation.FromJSON(req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if req.Operation == admissionv1.Create {
		lines, errs := v.create(ctx, req.Object.Raw, now)
		return answer(req, kindDeployment, wording(req, now).Errors(errs), lines)
	}
	before, err := validation.FromJSON(req.OldObject.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	lines, errs := v.update(ctx, req.Object.Raw, before, now)
	return answer(req, kindDeployment, wording(req, now).Errors(errs), lines)
}

// create checks a new deployment. Only here is the ClusterTopology read: what happens to it later is reported in a condition.
func (v *deploymentValidator) create(ctx context.Context, raw []byte, dgd validation.Written) (admission.Warnings, field.ErrorList) {
	topology, readErr := v.readTopology(ctx, constraint.Profile(dgd.DynamoGraphDeployment))
	errs := append(validation.GraphCreate(dgd), validation.GraphTopology(dgd.DynamoGraphDeployment, topology, readErr)...)
	transfer, readErr := v.readTopology(ctx, validation.TransferTopologyName(dgd.DynamoGraphDeployment))
	errs = append(errs, validation.TransferTopology(dgd.DynamoGraphDeployment, transfer, readErr)...)
	errs = append(errs, validation.PodLimit(dgd.DynamoGraphDeployment, nil, v.maxPods)...)
	errs = append(errs, fits(raw)...)
	return v.warn(ctx, dgd, topology), errs
}

// update checks a change. One that leaves the spec alone passes in silence.
func (v *deploymentValidator) update(ctx context.Context, raw []byte, was, is validation.Written) (admission.Warnings, field.ErrorList) {
	old, updated := was.DynamoGraphDeployment, is.DynamoGraphDeployment
	errs := append(validation.GraphUpdate(is, was), validation.PodLimit(updated, old, v.maxPods)...)
	if v.underGrove != nil && v.underGrove(old) && v.underGrove(updated) {
		errs = append(errs, validation.GroveImmutable(updated, old)...)
	}
	if updated.DeletionTimestamp != nil {
		return nil, errs
	}
	errs = append(errs, fits(raw)...)
	if apiequality.Semantic.DeepEqual(updated.Spec, old.Spec) {
		return nil, errs
	}
	return v.warn(ctx, is, nil), errs
}

func (v *deploymentValidator) readTopology(ctx context.Context, profile string) (*grovev1alpha1.ClusterTopology, error) {
	if profile == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	topology := &grovev1alpha1.ClusterTopology{}
	if err := v.live.Get(ctx, client.ObjectKey{Name: profile}, topology); err != nil {
		return nil, err
	}
	return topology, nil
}

// wording is that of the version in which the user wrote the deployment.
func wording(req admission.Request, dgd validation.Written) validation.Wording {
	version := req.Kind.Version
	if req.RequestKind != nil {
		version = req.RequestKind.Version
	}
	return validation.WordingOf(dgd.DynamoGraphDeployment, version)
}

func (v *deploymentValidator) warn(ctx context.Context, dgd validation.Written, topology *grovev1alpha1.ClusterTopology) admission.Warnings {
	var notActedOn, more []string
	if v.notActedOn != nil {
		notActedOn = v.notActedOn(dgd.DynamoGraphDeployment)
	}
	if v.warnings != nil {
		more = v.warnings(dgd.DynamoGraphDeployment)
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil
	}
	return validation.Bounded(wording(req, dgd).Lines(append(validation.GraphWarnings(dgd, topology, notActedOn), more...)))
}

// answer allows the request with its warnings, or refuses it: 422, with one cause a field.
func answer(req admission.Request, kind schema.GroupVersionKind, errs field.ErrorList, lines admission.Warnings) admission.Response {
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

// invalid is the answer to the user: 422, with one cause a field.
func invalid(kind schema.GroupVersionKind, name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(kind.GroupKind(), name, errs)
}
