// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert responds to the API server's ConversionReviews. The API server sends a ConversionReview for every read and write of an
// object in a version other than its stored version:
//
//	/convert   DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter   nvidia.com/v1alpha1 <-> nvidia.com/v1beta1
//
// Conversion has no failure policy: one failing object breaks every list and watch of its version. The conversion itself (see
// api/nvidia/v1alpha1) therefore never fails for a stored object. This package refuses only requests that no CustomResourceDefinition of
// Trellis sends. It keeps objects as raw JSON, because Go types would rewrite quantities and drop empty values. It does not use
// controller-runtime's conversion webhook, which supports only Go types.
package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Path is the path of the conversion webhook, as in config/crd.
const Path = "/convert"

// maxRequest bounds one request, in bytes. The API server sends single objects, or the objects of one page of a list.
const maxRequest = 64 << 20

// Definitions maps the converted kinds to their CustomResourceDefinitions.
var Definitions = map[string]string{
	"DynamoGraphDeployment":               "dynamographdeployments.nvidia.com",
	"DynamoGraphDeploymentScalingAdapter": "dynamographdeploymentscalingadapters.nvidia.com",
}

// Handler serves Path.
func Handler() http.Handler { return handler{convert: nvidiav1alpha1.ConvertJSON} }

type handler struct {
	convert func(raw []byte, version string) ([]byte, error)
}

// ServeHTTP implements http.Handler. It responds with status 400 if the body is not a ConversionReview with a request. It reports any other
// error as a ConversionResponse with the status Failure and the message of the error.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	logger := log.FromContext(r.Context()).WithName("conversion")
	review, err := read(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	if response.ConvertedObjects, err = h.all(review.Request); err != nil {
		failures.Inc()
		logger.Error(err, "refusing a conversion", "request", review.Request.UID, "version", review.Request.DesiredAPIVersion)
		response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: response}); err != nil {
		logger.V(1).Info("the answer did not reach its caller", "reason", err.Error())
	}
}

func read(body io.Reader) (*apiextensionsv1.ConversionReview, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	review := &apiextensionsv1.ConversionReview{}
	if err := json.Unmarshal(raw, review); err != nil {
		return nil, fmt.Errorf("reading the ConversionReview: %w", err)
	}
	if want := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview"); review.GroupVersionKind() != want {
		return nil, fmt.Errorf("want a ConversionReview of %s, got kind %q of %q", want.GroupVersion(), review.Kind, review.APIVersion)
	}
	if review.Request == nil {
		return nil, errors.New("the ConversionReview has no request")
	}
	return review, nil
}

// all converts every object of a request, or fails for the whole request. It converts a panic into an error.
func (h handler) all(request *apiextensionsv1.ConversionRequest) (converted []runtime.RawExtension, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			converted, err = nil, fmt.Errorf("converting to %s: panic: %v", request.DesiredAPIVersion, fault)
		}
	}()
	version, err := versionOf(request.DesiredAPIVersion)
	if err != nil {
		return nil, fmt.Errorf("cannot convert to %q: %w", request.DesiredAPIVersion, err)
	}
	converted = make([]runtime.RawExtension, 0, len(request.Objects))
	for _, object := range request.Objects {
		out, err := h.one(object.Raw, version)
		if err != nil {
			return nil, err
		}
		converted = append(converted, runtime.RawExtension{Raw: out})
	}
	return converted, nil
}

// one converts one object. A server-side apply may send a partial object that contains only its kind and a few fields.
func (h handler) one(raw []byte, version string) ([]byte, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(raw, &is); err != nil {
		return nil, fmt.Errorf("reading the kind of an object: %w", err)
	}
	if Definitions[is.Kind] == "" {
		return nil, fmt.Errorf("cannot convert kind %q of %q", is.Kind, is.APIVersion)
	}
	if _, err := versionOf(is.APIVersion); err != nil {
		return nil, fmt.Errorf("cannot convert from %q: %w", is.APIVersion, err)
	}
	out, err := h.convert(raw, version)
	if err != nil {
		return nil, fmt.Errorf("converting %s to %s: %w", is.Kind, version, err)
	}
	return out, nil
}

// versionOf returns the version in an apiVersion, or an error if this version is not converted.
func versionOf(apiVersion string) (string, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return "", err
	}
	if gv != nvidiav1alpha1.GroupVersion && gv != v1beta1.GroupVersion {
		return "", fmt.Errorf("the versions are %s and %s", nvidiav1alpha1.GroupVersion, v1beta1.GroupVersion)
	}
	return gv.Version, nil
}
