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

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Write replaces the status of an object, and updates the object to the stored state. It returns false without an error if the object is
// gone, or if another object now has its name. The other object has its own events, which trigger its reconcile.
//
// The patch tests the UID. A merge patch cannot test the UID, because in a patch of the status the API server ignores the metadata. A patch
// with the resourceVersion would cause a conflict after any other change of the object.
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

// notApplied reports whether the test of a JSON patch failed. The details of such an error name no kind. If the API server refuses the
// patched object, the error has the same code, and its details name the kind. The error of a webhook with this code has no details.
func notApplied(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return status.Status().Reason == metav1.StatusReasonInvalid && details != nil && details.Kind == ""
}
