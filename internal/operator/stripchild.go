// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/strip"
)

// maxChild bounds the content of a cached child of a deployment, in bytes. Trellis' children are far smaller, except for an endpoint
// picker's configuration and users' annotations.
const maxChild = 32 << 10

// stripChild is a cache transform for the kinds of a deployment's children. It keeps the content of objects that may be children, up to
// maxChild. It drops the content of all other objects. The controllers read these objects from the API server when they compare the
// content.
func stripChild(obj any) (any, error) {
	o, ok := obj.(client.Object)
	if !ok {
		return obj, nil
	}
	if _, err := strip.Object(o); err != nil {
		return nil, err
	}
	sized, ok := o.(interface{ Size() int })
	if !ok {
		return o, nil
	}
	if of := metadataOf(o); isChild(o) && of != nil && sized.Size()-of.Size() <= maxChild {
		return o, nil
	}
	return metadataAlone(o), nil
}

// isChild reports whether an object has a label or annotation that marks a deployment's children.
func isChild(o client.Object) bool {
	return o.GetLabels()[render.LabelManagedBy] == render.ManagedBy || o.GetLabels()[render.LabelGraph] != "" ||
		o.GetAnnotations()[render.AnnotationApplied] != ""
}

// metadataAlone returns an object of the same type without its content. It keeps all owners, and the labels and annotations that Trellis
// reads.
func metadataAlone(o client.Object) client.Object {
	out := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	out.GetObjectKind().SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	*metadataOf(out) = *metadataOf(o)
	annotations := strip.Annotations(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[strip.AnnotationLeftOut] = "content"
	out.SetAnnotations(annotations)
	out.SetLabels(strip.Labels(out.GetLabels()))
	return out
}

func metadataOf(o client.Object) *metav1.ObjectMeta {
	accessor, ok := o.(metav1.ObjectMetaAccessor)
	if !ok {
		return nil
	}
	of, _ := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	return of
}

// stripDeployment is a cache transform for deployments. It keeps, within bounds, the annotations that Trellis reads, and the annotation
// with the spec fields that exist only in the other API version.
func stripDeployment(obj any) (any, error) {
	if o, ok := obj.(*nvidiav1beta1.DynamoGraphDeployment); ok {
		o.ManagedFields = nil
		o.Annotations = strip.Annotations(o.Annotations, nvidiav1alpha1.AnnotationSpecMemory)
	}
	return obj, nil
}

// stripGroup is a cache transform for scaling groups. It limits their annotations, and keeps the managed fields that show edits by other
// clients.
func stripGroup(obj any) (any, error) {
	kept, err := render.StripGroup(obj)
	sg, is := kept.(*trellisv1alpha1.ScalingGroup)
	if err != nil || !is {
		return kept, err
	}
	managed := sg.ManagedFields
	stripped, err := strip.Object(sg)
	sg.ManagedFields = managed
	return stripped, err
}
