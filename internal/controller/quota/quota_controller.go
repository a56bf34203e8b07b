// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota requests quota from Kueue for deployments in one of its queues: it creates and deletes their Workloads (package
// internal/quota decides which).
//
// Without deployments in a queue, the package causes no load: Kueue is not queried, its kinds are not watched, and the operator needs no
// permissions on these kinds.
package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/addon"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/record"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// workers is how many deployments are reconciled in parallel.
const workers = 8

// EventWorkloadRefused on a deployment means that the API server, or a webhook of Kueue, refuses a Workload of the deployment. The operator
// retries the write.
const EventWorkloadRefused = "WorkloadRefused"

// Reconciler writes the Workloads of deployments.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Providers includes Kueue.
	Providers registry
	Recorder  events.EventRecorder
	// Checks sets the states of Trellis' AdmissionChecks.
	Checks Checks
	// RecordOf reads the record of a deployment.
	RecordOf RecordOf
	// queued is set once a deployment is, or was, in a queue of a usable Kueue. It stays set until the operator stops.
	queued atomic.Bool
	// strays has the names of deployments with pods in a queue although the deployment itself may be in no queue.
	strays sync.Map
	unseen unseen
}

// registry is the registry of providers, with events of their changes.
type registry interface {
	addon.Registry
	Changes() <-chan event.GenericEvent
}

// RecordOf returns the record of a deployment; nil for none.
type RecordOf func(context.Context, *nvidiav1beta1.DynamoGraphDeployment) (*assignment.Record, error)

// SetupWithManager registers the controller. The permissions on Workloads are in config/kueue.
func SetupWithManager(mgr ctrl.Manager, c client.Client, providers *provider.Registry, checks Checks, recordOf RecordOf,
	retries blocked.Retries) error {
	r := &Reconciler{
		Client: c, Providers: providers, Recorder: record.Bounded(mgr.GetEventRecorder("trellis")), Checks: checks, RecordOf: recordOf,
	}
	if err := mgr.Add(&activator{client: c, live: checks.Live, denied: checks.Denied, tell: r.tellGraphs, ready: r.queued.Load}); err != nil {
		return err
	}
	queued := predicate.NewPredicateFuncs(func(o client.Object) bool {
		pod := o.(*corev1.Pod)
		return quota.InQueue(pod) || quota.WorkloadOf(pod) != ""
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("quota").
		For(&nvidiav1beta1.DynamoGraphDeployment{}).
		Owns(&trellisv1alpha1.ScalingGroup{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.deploymentOf), builder.WithPredicates(queued)).
		WatchesRawSource(source.Channel(r.Providers.Changes(), handler.EnqueueRequestsFromMapFunc(r.concernedBy))).
		WatchesRawSource(source.Channel(checks.Changed, &handler.EnqueueRequestForObject{})).
		WithOptions(blocked.Options(workers, retries)).
		Complete(r)
}

// Concerns reports whether a deployment is, or was, in a queue.
func Concerns(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return dgd.Labels[render.LabelKueueQueue] != "" || meta.FindStatusCondition(dgd.Status.Conditions,
		nvidiav1beta1.ConditionQuotaReserved) != nil
}

// mayHaveWorkloads reports whether a deployment needs Workloads or may have some. A deployment that is in no queue may still have
// Workloads, because it may have left its queue before its status reported the queue, even before the operator started.
func (r *Reconciler) mayHaveWorkloads(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (bool, error) {
	if dgd.DeletionTimestamp != nil {
		return false, nil
	}
	name := client.ObjectKeyFromObject(dgd)
	if Concerns(dgd) || r.unseen.known(name) {
		return true, nil
	}
	own := r.Providers.Own(Name)
	if own == nil { // as far as this process knows, no deployment is in a queue
		return false, nil
	}
	left, err := Workloads(ctx, own, name, dgd.UID)
	return len(left) > 0, err
}

// Reconcile creates, changes and deletes the Workloads of a deployment, so that they match the Workloads that its pods name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := r.Client.Get(ctx, req.NamespacedName, dgd); err != nil {
		r.strays.Delete(req.NamespacedName)
		r.unseen.forget(req.NamespacedName)
		r.Checks.Promises.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if joined, err := r.join(ctx, dgd); joined || err != nil {
		return ctrl.Result{}, err // the deployment's event requeues it
	}
	if may, err := r.mayHaveWorkloads(ctx, dgd); err != nil || !may {
		r.Checks.Promises.Forget(req.NamespacedName)
		return ctrl.Result{}, err
	}
	own, _ := Reader(ctx, r.Providers)
	if own == nil { // a change of the provider's state requeues the deployment
		if !r.Providers.State(ctx, Name).Ready { // places are not held for quota that cannot be read
			r.Checks.Promises.Forget(req.NamespacedName)
		}
		return ctrl.Result{}, nil
	}
	r.queued.Store(true)
	o, err := r.observe(ctx, own, dgd)
	if err != nil {
		return ctrl.Result{}, err
	}
	again, err := r.check(ctx, &o)
	steps := quota.Plan(o)
	r.unseen.await(&o, &steps)
	if !Concerns(dgd) && len(o.Workloads) == 0 && len(r.unseen.of(req.NamespacedName)) == 0 {
		r.unseen.forget(req.NamespacedName)
	}
	if wait := steps.Next.Sub(o.Now); !steps.Next.IsZero() && (again == 0 || wait < again) {
		again = wait
	}
	return ctrl.Result{RequeueAfter: again}, errors.Join(err, r.apply(ctx, dgd, steps))
}

func (r *Reconciler) observe(ctx context.Context, own client.Reader, dgd *nvidiav1beta1.DynamoGraphDeployment) (quota.Observation, error) {
	o := quota.Observation{DGD: dgd, Now: r.Checks.Clock.Now()}
	var err error
	if o.Groups, o.Pods, err = r.made(ctx, dgd); err != nil {
		return o, err
	}
	if o.Record, err = r.RecordOf(ctx, dgd); err != nil {
		return o, err
	}
	o.Workloads, err = Workloads(ctx, own, client.ObjectKeyFromObject(dgd), dgd.UID)
	return o, err
}

// made returns a deployment's scaling groups, and the pods with its label.
func (r *Reconciler) made(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment,
) ([]*trellisv1alpha1.ScalingGroup, []*corev1.Pod, error) {
	groups, err := scheduler.GroupsOf(ctx, r.Client, dgd.Namespace, dgd.UID)
	if err != nil {
		return nil, nil, err
	}
	list := &corev1.PodList{}
	ofGraph := client.MatchingFields{scheduler.IndexPodsByGraph: render.LabelValue(dgd.Name)}
	if err := r.Client.List(ctx, list, client.InNamespace(dgd.Namespace), ofGraph); err != nil {
		return nil, nil, fmt.Errorf("listing the pods of deployment %s: %w", dgd.Name, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return groups, pods, nil
}

func (r *Reconciler) apply(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, s quota.Steps) error {
	var failures []error
	for _, w := range s.Delete {
		failures = append(failures, r.delete(ctx, w))
	}
	for _, w := range s.Requeue {
		failures = append(failures, r.requeue(ctx, w, s.Queue))
	}
	for _, w := range s.Hold {
		failures = append(failures, r.patch(ctx, w, quota.HoldPatch, "having Workload %s follow the first replicas"))
	}
	for _, w := range s.Resume {
		failures = append(failures, r.patch(ctx, w, quota.ResumePatch, "having Workload %s ask for quota"))
	}
	for _, w := range s.Unmark {
		failures = append(failures, r.patch(ctx, w, quota.UnmarkPatch, "noting that Workload %s is active"))
	}
	for _, w := range s.Ask {
		failures = append(failures, r.patch(ctx, w, quota.AskPatch, "having Workload %s ask for quota again"))
	}
	for _, w := range s.Create {
		err := r.create(ctx, w)
		if err != nil {
			r.unseen.notCreated(client.ObjectKeyFromObject(dgd), w.Name)
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsInternalError(err) {
			r.Recorder.Eventf(dgd, nil, corev1.EventTypeWarning, EventWorkloadRefused, "Create", "%s", err.Error())
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// create creates a Workload. The name contains a hash of the deployment's UID, so an existing Workload of this name is the same Workload,
// which the cache does not show yet.
func (r *Reconciler) create(ctx context.Context, w *quota.Workload) error {
	object, err := external.Object(w)
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("asking Kueue for quota", "workload", w.Name, "queue", w.Spec.QueueName)
	err = r.Client.Create(ctx, object, client.FieldOwner(render.FieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Workload %s: %w", w.Name, err)
	}
	return nil
}

func (r *Reconciler) delete(ctx context.Context, w *quota.Workload) error {
	object, err := external.Object(w)
	if err != nil {
		return err
	}
	object.SetGroupVersionKind(quota.WorkloadKind)
	log.FromContext(ctx).Info("giving quota back to Kueue", "workload", w.Name)
	err = r.Client.Delete(ctx, object, client.Preconditions{UID: &w.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Workload %s: %w", w.Name, err)
	}
	return nil
}

// requeue moves a Workload without quota to the queue that its deployment names.
func (r *Reconciler) requeue(ctx context.Context, w *quota.Workload, queue string) error {
	return r.patch(ctx, w, map[string]any{"spec": map[string]any{"queueName": queue}}, "moving Workload %s to queue "+queue)
}

// patch changes a Workload, provided the Workload has not changed since it was read. doing is the format of a message about the change,
// with one verb for the Workload's name.
func (r *Reconciler) patch(ctx context.Context, w *quota.Workload, change map[string]any, doing string) error {
	object, err := external.Object(w)
	if err != nil {
		return err
	}
	object.SetGroupVersionKind(quota.WorkloadKind)
	patch, err := quota.PatchOf(w, change)
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info(fmt.Sprintf(doing, w.Name))
	err = r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(render.FieldOwner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf(doing+": %w", w.Name, err)
	}
	return nil
}
