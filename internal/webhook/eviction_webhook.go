// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/trellis-k8s/trellis/internal/evictions"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Evictions are the dependencies of evictionValidator. [evictions.Requests] writes without the leader's lease, because standbys also serve
// webhooks.
type Evictions struct {
	evictions.Requests
	// Synced reports whether the cache is filled.
	Synced func() bool
}

// evictionValidator refuses the eviction of a pod whose replica serves, with status 429, and makes the replica move. Callers retry until
// the replica has moved and the pod is gone. evictionValidator allows all other evictions, even after failed reads or writes, because
// disruption budgets bound them. A budget may refuse the eviction of a Ready pod whose replica does not serve, so evictionValidator records
// this request. The operator then recreates the replica elsewhere.
type evictionValidator struct{ Evictions }

var _ admission.Handler = &evictionValidator{}

// Handle implements admission.Handler.
func (v *evictionValidator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if v.Cached == nil || !v.Synced() {
		return admission.Allowed("")
	}
	eviction := &policyv1.Eviction{}
	if err := json.Unmarshal(req.Object.Raw, eviction); err != nil {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("the eviction cannot be read: %v", err))
	}
	e, err := v.find(ctx, req, eviction)
	switch {
	case err != nil:
		return admission.Allowed("").WithWarnings(fmt.Sprintf("whether the replica of the pod serves is not known: %v", err))
	case e == nil || !e.Serves && (dryRun(req, eviction) || !render.PodReady(e.Pod)):
		return admission.Allowed("")
	case dryRun(req, eviction):
		return admission.Allowed("").WithWarnings(fmt.Sprintf("%s would move first: its pods are evicted together, when its successor serves",
			e.Name()))
	}
	if err := v.Store(ctx, e); err != nil {
		log.FromContext(ctx).Error(err, "an eviction passes without a move", "namespace", e.Pod.Namespace, "pod", e.Pod.Name)
		return admission.Allowed("").WithWarnings(fmt.Sprintf("the replica of the pod does not move first: %v", err))
	}
	if !e.Serves {
		return admission.Allowed("")
	}
	return tooManyRequests(e.Progress())
}

// dryRun reports whether the request, or the options in its body, request a dry run.
func dryRun(req admission.Request, eviction *policyv1.Eviction) bool {
	return ptr.Deref(req.DryRun, false) || eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0
}

// find returns the pod to evict and its replica; nil if the pod may be evicted immediately.
func (v *evictionValidator) find(ctx context.Context, req admission.Request, eviction *policyv1.Eviction) (*evictions.Target, error) {
	uid := types.UID("")
	if o := eviction.DeleteOptions; o != nil && o.Preconditions != nil {
		uid = ptr.Deref(o.Preconditions.UID, "")
	}
	return v.Find(ctx, types.NamespacedName{Namespace: req.Namespace, Name: req.Name}, uid)
}

// tooManyRequests is the response after which callers of the eviction API retry.
func tooManyRequests(message string) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: message,
	}}}
}
