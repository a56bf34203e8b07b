// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Written is a deployment together with the form that v1alpha1 has of it, where its user may have written what v1beta1 has no form for: an
// amount that is no quantity, a claim, an ingress.
type Written struct {
	*nvidiav1beta1.DynamoGraphDeployment
	// Alpha is the deployment in v1alpha1; nil of one that v1beta1 expresses entirely.
	Alpha *nvidiav1alpha1.DynamoGraphDeployment
	// problem is why what v1alpha1 said cannot be read.
	problem error
}

// FromJSON is a deployment as a request has it, in either version. It fails on one that its own version's schema does not take; what a
// deployment of v1beta1 remembers of v1alpha1, and cannot be read, is an error of [Graph].
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

// Unreadable reports whether what the deployment remembers of v1alpha1 is none.
func (w Written) Unreadable() bool { return w.problem != nil }

// AlphaOnly is what only v1alpha1 can say of the deployment.
func (w Written) AlphaOnly() nvidiav1alpha1.AlphaOnly {
	return nvidiav1alpha1.AlphaOnlyIn(w.Alpha, w.DynamoGraphDeployment)
}

// FromHub is a deployment as v1beta1 has it, with what it remembers of v1alpha1; empty for none.
func FromHub(dgd *nvidiav1beta1.DynamoGraphDeployment) Written {
	if dgd == nil {
		return Written{}
	}
	alpha, err := nvidiav1alpha1.AlphaOnlyOf(dgd)
	return Written{DynamoGraphDeployment: dgd, Alpha: alpha.Deployment, problem: err}
}
