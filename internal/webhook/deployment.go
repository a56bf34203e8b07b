// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/replicas"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// readTimeout bounds the reads of one request, well inside the five seconds the API server waits for the answer.
const readTimeout = 3 * time.Second

var (
	_ admission.Defaulter[*unstructured.Unstructured]            = deploymentDefaulter{}
	_ admission.Validator[*nvidiav1alpha1.DynamoGraphDeployment] = &deploymentValidator{}
)

var kindDeployment = nvidiav1alpha1.GroupVersion.WithKind("DynamoGraphDeployment")

// deploymentDefaulter sets replicas to 1 where they are left out, and lets scaling adapters keep theirs.
//
// It works on the object as the user wrote it, not on our type: the way through the type would write out zero values of the pod specs
// inside (resources: {}, a null list) and would fail on a malformed quantity before the schema can name the field. So the patch holds
// the defaults and nothing else.
type deploymentDefaulter struct{}

// Default implements admission.Defaulter.
func (deploymentDefaulter) Default(ctx context.Context, dgd *unstructured.Unstructured) error {
	if dgd.GetDeletionTimestamp() != nil {
		return nil
	}
	spec, _ := dgd.Object["spec"].(map[string]any)
	services, _ := spec["services"].(map[string]any)
	for _, value := range services {
		if service, ok := value.(map[string]any); ok && service["replicas"] == nil {
			service["replicas"] = int64(1)
		}
	}
	if req, err := admission.RequestFromContext(ctx); err == nil {
		warn(ctx, validation.Bounded(keepReplicas(req, dgd)))
	}
	return nil
}

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

// ValidateCreate implements admission.Validator. Only here is the ClusterTopology read: what happens to it later is told by a condition.
func (v *deploymentValidator) ValidateCreate(ctx context.Context, object *nvidiav1alpha1.DynamoGraphDeployment) (admission.Warnings, error) {
	dgd, err := validation.FromAlpha(object)
	if err != nil {
		return nil, err
	}
	topology, readErr := v.readTopology(ctx, validation.Profile(dgd.DynamoGraphDeployment))
	errs := append(validation.Graph(dgd), validation.GraphTopology(dgd.DynamoGraphDeployment, topology, readErr)...)
	errs = append(errs, validation.PodLimit(dgd.DynamoGraphDeployment, nil, v.maxPods)...)
	if len(errs) > 0 {
		return nil, invalid(kindDeployment, object.Name, wording(ctx, dgd).Errors(errs))
	}
	return v.warn(ctx, dgd, topology), nil
}

// ValidateUpdate implements admission.Validator. A change that leaves the spec alone passes in silence.
func (v *deploymentValidator) ValidateUpdate(ctx context.Context, before, now *nvidiav1alpha1.DynamoGraphDeployment) (admission.Warnings, error) {
	was, err := validation.FromAlpha(before)
	if err != nil {
		return nil, err
	}
	is, err := validation.FromAlpha(now)
	if err != nil {
		return nil, err
	}
	old, updated := was.DynamoGraphDeployment, is.DynamoGraphDeployment
	errs := append(validation.GraphUpdate(is, was), validation.PodLimit(updated, old, v.maxPods)...)
	if v.underGrove != nil && v.underGrove(old) && v.underGrove(updated) {
		errs = append(errs, validation.NodeCountImmutable(updated, old)...)
	}
	if req, err := admission.RequestFromContext(ctx); err != nil || !mayScale(req) {
		adapterOf := func(service string) string { return replicas.AdapterName(updated.Name, service) }
		errs = append(errs, validation.ReplicasOwner(updated, old, adapterOf)...)
	}
	if len(errs) > 0 {
		return nil, invalid(kindDeployment, now.Name, wording(ctx, is).Errors(errs))
	}
	if updated.DeletionTimestamp != nil || apiequality.Semantic.DeepEqual(now.Spec, before.Spec) {
		return nil, nil
	}
	return v.warn(ctx, is, nil), nil
}

// ValidateDelete implements admission.Validator. It is never registered: nothing bars the way out.
func (v *deploymentValidator) ValidateDelete(context.Context, *nvidiav1alpha1.DynamoGraphDeployment) (admission.Warnings, error) {
	return nil, nil
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

// wording is that of the version in which the user wrote the deployment. The API server converts what is written in another version than the
// webhook asks for.
func wording(ctx context.Context, dgd validation.Written) validation.Wording {
	req, err := admission.RequestFromContext(ctx)
	if err != nil || req.RequestKind == nil {
		return validation.Wording{}
	}
	return validation.WordingOf(dgd.DynamoGraphDeployment, req.RequestKind.Version)
}

func (v *deploymentValidator) warn(ctx context.Context, dgd validation.Written, topology *grovev1alpha1.ClusterTopology) admission.Warnings {
	var notActedOn, more []string
	if v.notActedOn != nil {
		notActedOn = v.notActedOn(dgd.DynamoGraphDeployment)
	}
	if v.warnings != nil {
		more = v.warnings(dgd.DynamoGraphDeployment)
	}
	return validation.Bounded(wording(ctx, dgd).Lines(append(validation.GraphWarnings(dgd, topology, notActedOn), more...)))
}

// invalid is the answer to the user: 422, with one cause a field.
func invalid(kind schema.GroupVersionKind, name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(kind.GroupKind(), name, errs)
}
