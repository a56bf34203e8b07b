// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statuspatch writes the status of an object that a reconcile has read from a cache.
package statuspatch

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Write replaces the status of an object, which takes in what the API server stores. It returns false without an error when the object is
// gone, or when another one of the same name is there: that one's own event comes.
//
// The patch tests the UID. A merge patch cannot: the API server takes no metadata from a patch of the status, and so ignores a wrong UID.
// A resource version would be refused after each change of anything else of the object.
func Write(ctx context.Context, c client.StatusClient, object client.Object, status any) (written bool, err error) {
	patch, err := json.Marshal([]operation{{"test", "/metadata/uid", object.GetUID()}, {"add", "/status", status}})
	if err != nil {
		return false, err
	}
	err = c.Status().Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch))
	if apierrors.IsNotFound(err) || notApplied(err) {
		return false, nil
	}
	return err == nil, err
}

// notApplied reports whether a JSON patch did not apply to the object: its test failed. What the API server refuses of an object that was
// patched has the same code, and names the kind. A webhook that answers with this code gives no details.
func notApplied(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return status.Status().Reason == metav1.StatusReasonInvalid && details != nil && details.Kind == ""
}
