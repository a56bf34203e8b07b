// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evictionresponder responds to Evictions of lifecycle.k8s.io (KEP-4563, alpha since Kubernetes 1.37). While the operator is the
// active responder of an Eviction, the replica of the Eviction's pod moves. The operator completes its response when the pod is being
// deleted, or if the pod's replica does not serve or does not move. Then the next responder takes over, by default the API server's own
// evictor.
package evictionresponder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/evictions"
)

const (
	// heartbeat is the time between two updates of a status. KEP-4563 asks for at least 20 seconds.
	heartbeat = 20 * time.Second
	// workers is the number of Evictions that are reconciled in parallel.
	workers = 4
)

// Served reports whether the API server serves Evictions.
func Served(mapper meta.RESTMapper) (bool, error) {
	kind := lifecyclev1alpha1.SchemeGroupVersion.WithKind("Eviction")
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// Reconciler responds to Evictions.
type Reconciler struct {
	Client   client.Client
	Requests evictions.Requests
	Clock    clock.PassiveClock
}

// +kubebuilder:rbac:groups=lifecycle.k8s.io,resources=evictions,verbs=list;watch
// +kubebuilder:rbac:groups=lifecycle.k8s.io,resources=evictions/status,verbs=patch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("evictionresponder").
		For(&lifecyclev1alpha1.Eviction{}).
		WithOptions(blocked.Options(workers, blocked.Retries{})).
		Complete(r)
}

// Reconcile stores a request to move the replica of an Eviction's pod while the operator is the active responder of the Eviction, and
// reports the progress. It withdraws the request when the Eviction is canceled.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	eviction := &lifecyclev1alpha1.Eviction{}
	if err := r.Client.Get(ctx, req.NamespacedName, eviction); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	state, pod := stateOf(eviction), eviction.Spec.Target.Pod
	active, canceled := state == lifecyclev1alpha1.ResponderStateActive, state == lifecyclev1alpha1.ResponderStateCanceled
	if pod == nil || !active && !canceled {
		return ctrl.Result{}, nil
	}
	target, err := r.Requests.Find(ctx, types.NamespacedName{Namespace: req.Namespace, Name: pod.Name}, pod.UID)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading pod %s: %w", pod.Name, err)
	}
	switch {
	case target == nil && canceled:
		return ctrl.Result{}, nil
	case canceled:
		return ctrl.Result{}, client.IgnoreNotFound(r.Requests.Withdraw(ctx, target, activeUntil(eviction)))
	case target == nil:
		return r.report(ctx, eviction, "the pod is gone or is being deleted, or its replica does not move", true)
	case !target.Serves:
		return r.report(ctx, eviction, target.Name()+" does not serve, so its pods can be evicted", true)
	}
	if err := r.Requests.Store(ctx, target); err != nil {
		return ctrl.Result{}, err
	}
	return r.report(ctx, eviction, target.Progress(), false)
}

// stateOf returns the operator's responder state in an Eviction; "" if the operator is no responder.
func stateOf(eviction *lifecyclev1alpha1.Eviction) lifecyclev1alpha1.ResponderStateType {
	for _, responder := range eviction.Status.TargetResponders {
		if responder.Name == evictions.Responder {
			return responder.State
		}
	}
	return ""
}

// activeUntil returns the latest time at which the operator can have stored a request for a canceled Eviction: one heartbeat after its last
// report. It returns zero if the operator was never active. A later request is from another client, and must stay when the canceled
// Eviction is reconciled again.
func activeUntil(eviction *lifecyclev1alpha1.Eviction) time.Time {
	at := slices.IndexFunc(eviction.Status.Responders, ours)
	if at < 0 {
		return time.Time{}
	}
	last := cmp.Or(eviction.Status.Responders[at].HeartbeatTime, eviction.Status.Responders[at].StartTime)
	if last == nil {
		return time.Time{}
	}
	return last.Add(heartbeat)
}

func ours(s lifecyclev1alpha1.ResponderStatus) bool { return s.Name == evictions.Responder }

// report updates the operator's entry in the Eviction's status, with each heartbeat and when the response is completed.
func (r *Reconciler) report(ctx context.Context, eviction *lifecyclev1alpha1.Eviction, message string,
	completed bool) (ctrl.Result, error) {
	reported := eviction.DeepCopy()
	at := slices.IndexFunc(reported.Status.Responders, ours)
	if at < 0 { // the controller of Evictions has not initialized it yet, which triggers the next reconcile
		return ctrl.Result{}, nil
	}
	status, now := &reported.Status.Responders[at], metav1.NewTime(r.Clock.Now())
	if status.CompletionTime != nil {
		return ctrl.Result{}, nil
	}
	if last := status.HeartbeatTime; last != nil && !completed {
		if left := heartbeat - now.Sub(last.Time); left > 0 && left <= heartbeat {
			return ctrl.Result{RequeueAfter: left}, nil
		}
	}
	status.HeartbeatTime, status.Message = &now, &message
	next := ctrl.Result{RequeueAfter: heartbeat}
	if completed {
		status.CompletionTime, next = &now, ctrl.Result{}
	}
	err := r.Client.Status().Patch(ctx, reported, client.StrategicMergeFrom(eviction))
	return next, client.IgnoreNotFound(err)
}
