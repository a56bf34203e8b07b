// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topologies"
)

// retryAfter is the number of seconds after which a client should retry a request that failed because of a failed read. Clients that use
// client-go, such as kubectl, retry automatically, up to 10 times.
const retryAfter = 1

// maxMessage bounds the length of a message about a failed read, in bytes.
const maxMessage = 1024

// readTopology returns the ClusterTopology with this name, which may come from a Binding; nil if it does not exist. If readTopology returns
// an error, it is unknown whether the ClusterTopology exists.
func (v *deploymentValidator) readTopology(ctx context.Context, name string) (*grovev1alpha1.ClusterTopology, error) {
	if name == "" || len(content.IsPathSegmentName(name)) > 0 {
		return nil, nil
	}
	topology := &grovev1alpha1.ClusterTopology{}
	if err := v.live.Get(ctx, client.ObjectKey{Name: name}, topology); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("failed to read ClusterTopology %q for topology validation: %w", name, err)
	}
	return topology, nil
}

// tryAgain refuses a request because of a failed read, although no errors were found in its object. The status is 503, so that clients
// retry, or 500 if an administrator has to act first.
func tryAgain(unread error) admission.Response {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfter},
	}
	fix := "try again"
	if byAdmin := forAdmin(unread); byAdmin != "" {
		fix = byAdmin
		status.Code, status.Reason, status.Details = http.StatusInternalServerError, metav1.StatusReasonInternalError, nil
	}
	status.Message = limit.Text(unread.Error(), maxMessage) + "; nothing wrong was found in the DynamoGraphDeployment; " + fix
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}

// forAdmin returns the action that an administrator has to take before a read can succeed; "" for none.
func forAdmin(unread error) string {
	var unusable *topologies.UnusableError
	switch {
	case errors.As(unread, &unusable):
		return "correct the ClusterTopologyBinding"
	case meta.IsNoMatchError(unread):
		return "install the CustomResourceDefinition clustertopologies.grove.io"
	case apierrors.IsForbidden(unread):
		return "allow the operator's ServiceAccount to get " + resourceOf(unread)
	}
	return ""
}

// resourceOf returns the resource in a request that the API server refused: ClusterTopologies or Bindings.
func resourceOf(refused error) string {
	status := apierrors.APIStatus(nil)
	if errors.As(refused, &status) {
		if d := status.Status().Details; d != nil && d.Kind != "" {
			return schema.GroupResource{Group: d.Group, Resource: d.Kind}.String()
		}
	}
	return "clustertopologies.grove.io"
}

// notChecked returns the warning about a failed read, for an object that is refused because of other errors.
func notChecked(unread error) string {
	return limit.Text(unread.Error(), maxMessage) + "; what needs it was not checked"
}
