// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Written is a deployment together with its v1alpha1 form. The v1alpha1 form may contain values that v1beta1 cannot express: an amount that
// is not a quantity, a claim, or an ingress.
type Written struct {
	*nvidiav1beta1.DynamoGraphDeployment
	// Alpha is the deployment in v1alpha1; nil if v1beta1 expresses it completely.
	Alpha *nvidiav1alpha1.DynamoGraphDeployment
	// problem is the error that occurred when reading the stored v1alpha1 form; nil for none.
	problem error
}

// FromJSON reads the deployment from a request in either version. It returns an error if the JSON does not match the types of its version.
// If the v1alpha1 form in the annotation of a v1beta1 object cannot be read, [Graph] reports this.
func FromJSON(raw []byte) (Written, error) {
	kind := metav1.TypeMeta{}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return Written{}, err
	}
	converted, err := nvidiav1alpha1.ConvertJSON(raw, nvidiav1beta1.GroupVersion.Version)
	if err != nil {
		return Written{}, err
	}
	hub := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := json.Unmarshal(converted, hub); err != nil {
		return Written{}, err
	}
	w := Written{DynamoGraphDeployment: hub}
	if kind.GroupVersionKind().Version == nvidiav1beta1.GroupVersion.Version && hub.Annotations[nvidiav1alpha1.AnnotationSpecMemory] == "" {
		return w, nil
	}
	if converted, err = nvidiav1alpha1.ConvertJSON(raw, nvidiav1alpha1.GroupVersion.Version); err != nil {
		return Written{}, err
	}
	alpha := &nvidiav1alpha1.DynamoGraphDeployment{}
	err = json.Unmarshal(converted, alpha)
	if err != nil && kind.GroupVersionKind().Version == nvidiav1beta1.GroupVersion.Version {
		w.problem = err
		return w, nil
	}
	w.Alpha = alpha
	return w, err
}

// Unreadable reports whether the stored v1alpha1 form cannot be read.
func (w Written) Unreadable() bool { return w.problem != nil }

// AlphaOnly returns the fields of the deployment that only v1alpha1 has.
func (w Written) AlphaOnly() nvidiav1alpha1.AlphaOnly {
	return nvidiav1alpha1.AlphaOnlyIn(w.Alpha, w.DynamoGraphDeployment)
}

// FromHub returns a v1beta1 deployment together with its stored v1alpha1 form; empty for nil.
func FromHub(dgd *nvidiav1beta1.DynamoGraphDeployment) Written {
	if dgd == nil {
		return Written{}
	}
	alpha, err := nvidiav1alpha1.AlphaOnlyOf(dgd)
	return Written{DynamoGraphDeployment: dgd, Alpha: alpha.Deployment, problem: err}
}
