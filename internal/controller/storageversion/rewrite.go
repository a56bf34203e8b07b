// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// pageSize is the number of objects in one page of a list: as many as the API server converts in one call.
const pageSize = 100

// rewriter writes objects without changing them.
type rewriter struct {
	objects metadata.Interface
	// remaining is called with the number of objects still to be rewritten in the current namespace.
	remaining func(int64)
}

// all rewrites every object of a namespace, "" for all namespaces, and returns the objects that the API server refuses to write. It stops
// at any other error.
func (r rewriter) all(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]refusal, error) {
	var refusals []refusal
	objects := r.objects.Resource(resource).Namespace(namespace)
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := objects.List(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			options.Continue = goOn(err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
		}
		after := int64(0)
		if page.RemainingItemCount != nil {
			after = *page.RemainingItemCount
		}
		for i := range page.Items {
			r.remaining(after + int64(len(page.Items)-i+len(refusals)))
			if err := r.one(ctx, resource, &page.Items[i]); err != nil {
				if !refuses(err) {
					return nil, fmt.Errorf("rewriting %s %s/%s: %w", resource.GroupResource(), page.Items[i].Namespace, page.Items[i].Name, err)
				}
				refusals = append(refusals, refusal{types.NamespacedName{Namespace: page.Items[i].Namespace, Name: page.Items[i].Name}, err})
			}
		}
		r.remaining(after + int64(len(refusals)))
		if page.Continue == "" {
			return refusals, nil
		}
		options.Continue = page.Continue
	}
}

// goOn returns the token that continues a list after its revision was compacted; "": the list has to start again. The continued list shows
// the current revision, which is sufficient, because newer objects are stored in the right version.
func goOn(err error) string {
	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) {
		return status.Status().Continue
	}
	return ""
}

// one writes an object. It ignores an object that is gone. It also ignores an object that was changed since it was listed, because the
// change has already stored the object in the right version.
func (r rewriter) one(ctx context.Context, resource schema.GroupVersionResource, object *metav1.PartialObjectMetadata) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.UID, "resourceVersion": object.ResourceVersion}})
	if err != nil {
		return err
	}
	_, err = r.objects.Resource(resource).Namespace(object.Namespace).Patch(ctx, object.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// refuses reports whether an error concerns only this object, so that other objects may still be written.
func refuses(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}
