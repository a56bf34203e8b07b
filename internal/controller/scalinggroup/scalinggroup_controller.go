// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scalinggroup makes the pods of scaling groups and counts their replicas.
//
// A pod is created once and never changed here: placing it is the provider's, replacing it is the way to update it. Names are
// deterministic, so creating a pod twice is harmless; every deletion names the pod's UID, so a successor is never hit.
package scalinggroup

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
	"github.com/trellis-k8s/trellis/internal/controller/statuspatch"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// Reconciler makes a scaling group's pods.
type Reconciler struct {
	// Client reads from the cache and writes. Its reads show its writes: a pod that the cache does not show yet would be created again, and a
	// failure counted twice.
	Client client.Client
	// Live reads past the cache, before something is destroyed because it seems gone.
	Live client.Reader
	// Domains writes the ComputeDomains of replicas. A client that shows its writes would watch the kind.
	Domains client.Writer
	// Providers by name.
	Providers *provider.Registry
	// MaxPods bounds the pods of one graph: no pod is created for a graph whose groups ask for more together. 0: any number.
	MaxPods int64
	// HoldFor is how long the capacity of a lost replica is held for its successor (scheduler.Options).
	HoldFor time.Duration
	// Asks are the replicas that are to be created in place, and Placed has groups reconciled that have an answer; nil: all are gated.
	Asks   *scheduler.Asks
	Placed <-chan event.GenericEvent
	// Recorded is [scheduler.Scheduler.Recorded].
	Recorded func(context.Context, *trellisv1alpha1.ScalingGroup) (assignment.Replicas, error)
	// Retries after failures.
	Retries blocked.Retries
	// Leaving decides which nodes are to be removed, and MoveTimeout is how long a replica there waits for its successor.
	Leaving     leaving.Rules
	MoveTimeout time.Duration

	refusals refusals
	turns    creationturns.Turns
	causes   podCauses
	stored   storedPods
	domains  domains
	kinds    kinds
	written  pace.Writes
	moving   moving
	lacks    quotaLacks
}

// +kubebuilder:rbac:groups=trellis.dev,resources=scalinggroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=trellis.dev,resources=scalinggroups/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamoworkermetadatas,verbs=list;watch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r.refusals.first = r.Retries.First
	controllers := ctrl.NewControllerManagedBy(mgr)
	if err := r.watchMetadata(ctx, mgr, controllers); err != nil {
		return err
	}
	if r.Placed != nil {
		controllers.WatchesRawSource(source.Channel(r.Placed, &handler.EnqueueRequestForObject{}))
	}
	return controllers.
		Named("scalinggroup").
		For(&trellisv1alpha1.ScalingGroup{}).
		Watches(&trellisv1alpha1.ScalingGroup{}, handler.EnqueueRequestsFromMapFunc(r.siblings),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(groupOf)).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(r.easedBy), builder.WithPredicates(blocked.QuotaEased())).
		Watches(&corev1.Node{}, r.onNodes()).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.budgets().concerned),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Providers.Changes(), handler.EnqueueRequestsFromMapFunc(r.concernedBy))).
		WatchesRawSource(source.Channel(r.tellTurns(), &handler.EnqueueRequestForObject{})).
		WithOptions(blocked.Options(16, r.Retries)). // they wait for the API server most of the time
		Complete(r)
}

// Reconcile observes the group's pods, decides, writes pods, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	sg, pods, err := r.find(ctx, req.NamespacedName)
	if err != nil || sg == nil {
		return ctrl.Result{}, err
	}
	if workload := r.Providers.Workload(sg.Spec.Provider); workload != nil {
		r.Asks.Forget(req.NamespacedName)
		again, err := r.countWorkload(ctx, sg, workload)
		return ctrl.Result{RequeueAfter: again}, errors.Join(err, r.budgets().keep(ctx, observed{sg: sg}, 0))
	}
	adopting, refused := r.adopt(ctx, sg, pods.orphans)
	if adopting && refused == nil {
		return ctrl.Result{}, nil
	}
	o, err := r.observe(ctx, sg, pods)
	if err != nil {
		return ctrl.Result{}, err
	}
	d, err := r.decide(ctx, o)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := errors.Join(r.remember(ctx, o.sg, d.failing), r.rememberMoves(ctx, o)); err != nil {
		return ctrl.Result{}, err
	}
	allowed, err := r.allow(ctx, o, &d)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.place(ctx, o, &d.steps); err != nil {
		return ctrl.Result{}, err
	}
	if gone, err := r.isGoneBefore(ctx, sg, &d.steps); gone || err != nil {
		return ctrl.Result{}, err
	}
	noDomain := r.prepareDomains(ctx, sg, o.replicas, &d.steps)
	failure := errors.Join(refused, noDomain, r.apply(ctx, o, d.steps))
	result, err := r.finish(ctx, o, d, allowed, failure)
	return result, errors.Join(err, r.budgets().keep(ctx, o, podsThatStay(o.sg, o.replicas)))
}

// find reads a group and the pods that name it, and deletes the pods of earlier groups of its name. The group is nil when there is nothing
// more to do: it is gone, or being deleted.
func (r *Reconciler) find(ctx context.Context, name types.NamespacedName) (*trellisv1alpha1.ScalingGroup, found, error) {
	sg := &trellisv1alpha1.ScalingGroup{}
	err := r.Client.Get(ctx, name, sg)
	if client.IgnoreNotFound(err) != nil {
		return nil, found{}, err
	}
	gone := apierrors.IsNotFound(err)
	if gone {
		r.refusals.forget(name)
		r.causes.keep(name, nil)
		r.turns.Forget(name)
		r.Asks.Forget(name)
		r.written.Forget(name)
		r.domains.forget(name)
		r.moving.note(name, nil)
		r.lacks.note(name, false, r.refusals.clock())
	}
	if sg.DeletionTimestamp != nil {
		r.turns.Forget(name)
		r.Asks.Forget(name)
		return nil, found{}, nil // the garbage collector deletes the pods
	}
	pods, err := r.podsOf(ctx, name, sg)
	if err == nil {
		err = r.deleteLeftovers(ctx, name, sg.UID, pods.earlier)
	}
	if err != nil || gone {
		return nil, found{}, err
	}
	return sg, pods, nil
}

// observed is what one reconcile decides from.
type observed struct {
	sg       *trellisv1alpha1.ScalingGroup
	pods     found
	replicas map[int32]*replica
	queue    queue
	attempts attempts
	// unseen are replicas with pods that the cache does not show yet.
	unseen []int32
	// The times until a deleted pod is overdue, until events are due to be read, and until a move is overdue or ends; 0 for never.
	ends, reads, moves time.Duration
	// moved reports whether the moves in the status differ from the stored ones.
	moved bool
}

// observe sorts the pods into replicas and adds what else there is of these.
func (r *Reconciler) observe(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, pods found) (observed, error) {
	o := observed{sg: sg, pods: pods}
	o.replicas = replicasOf(sg, pods.own, func(pod *corev1.Pod) bool { return r.nodes().gone(ctx, pod) })
	if err := r.lookForSets(ctx, sg, o.replicas); err != nil {
		return o, err
	}
	var err error
	if o.queue, err = r.queueOf(ctx, sg); err != nil {
		return o, err
	}
	o.queue.judge(sg, pods.own, o.replicas)
	r.lookForMoves(ctx, &o)
	if err := r.lookForMetadata(ctx, sg, o.replicas); err != nil {
		return o, err
	}
	o.ends = r.lookForEnds(ctx, o.replicas)
	o.reads = r.lookForCauses(ctx, sg, o.replicas)
	if o.attempts, err = r.attemptsOf(ctx, sg); err != nil {
		return o, err
	}
	if o.unseen, err = r.lookForCreations(ctx, o); err != nil {
		return o, err
	}
	return o, errors.Join(r.lookForExcess(ctx, o), r.lookForNeighbours(ctx, o))
}

// decision is what one reconcile does.
type decision struct {
	next    rollout.Plan
	failing backOff
	steps   steps
}

// decide plans the rollout, leaves out the replicas that are recreated later, and turns the rest into steps. By a spec that another client
// has changed it creates and deletes no pod: the graph controller applies the spec again.
func (r *Reconciler) decide(ctx context.Context, o observed) (decision, error) {
	d := decision{next: plan(o.sg, o.replicas, o.attempts.recorded.Ordinals()...), failing: backOffOf(o.sg, o.replicas, r.refusals.clock())}
	if render.EditOf(o.sg) != nil {
		return d, nil
	}
	next := d.failing.without(d.next)
	d.steps = r.stepsFor(ctx, o, next)
	err := r.leaveWhatEnds(ctx, o, next, &d.steps)
	d.steps.waitFor(o.pods.earlier, o.pods.orphans)
	return d, err
}

// seenBy is when a group is requeued whose new pods were not seen, or that got no answer to what it asked for: an event may be lost, and
// others of the gang may be refused for long.
const seenBy = 30 * time.Second

// finish reports what has come of a reconcile, and reports when the next is due.
func (r *Reconciler) finish(ctx context.Context, o observed, d decision, allowed allowance, failure error) (ctrl.Result, error) {
	result := ctrl.Result{RequeueAfter: earliest(earliest(o.ends, earliest(o.reads, o.moves)), earliest(allowed.again, d.failing.again))}
	if d.steps.unseen || d.steps.overLimit {
		result.RequeueAfter = earliest(result.RequeueAfter, seenBy)
	}
	if failure == nil && d.steps.onlyMake() {
		again := seenBy
		if d.steps.more {
			again = time.Millisecond
		}
		result.RequeueAfter = earliest(result.RequeueAfter, again)
		return result, nil // the new pods will be seen in a moment, and reported then
	}
	shown := errors.Join(allowed.refused, failure)
	status := statusOf(o.sg, o.replicas, d.next, shown)
	d.failing.into(o.sg, o.replicas, &status)
	again, err := r.report(ctx, o.sg, status)
	result.RequeueAfter = earliest(result.RequeueAfter, again)
	return result, errors.Join(failure, err)
}

// remember stores new failures, before the pods that show them are deleted.
func (r *Reconciler) remember(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, failing backOff) error {
	if !failing.isNew {
		return nil
	}
	sg.Status.FailedReplicas = failing.failed
	_, err := statuspatch.Write(ctx, r.Client, sg.DeepCopy(), sg.Status)
	return wrapped(err, "writing failures into the status")
}

// earliest of two times from now on; 0 is never.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func inPlace(s *trellisv1alpha1.ScalingGroupStatus) bool {
	return s.Progress != nil && s.Progress.InPlace
}
