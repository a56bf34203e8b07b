// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/trellis-k8s/trellis/internal/named"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
)

const fieldManager = "trellis-storage-migration"

const (
	// settle is how long a definition must be unchanged before its objects are rewritten. Each API server of the cluster learns of a new
	// storage version independently, and writes objects in the previous version until then.
	settle = 10 * time.Second
	// requestsPerSecond limits the load on the API server and the webhooks.
	requestsPerSecond = 20
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=dynamographdeployments.nvidia.com;dynamographdeploymentscalingadapters.nvidia.com,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions/status,resourceNames=dynamographdeployments.nvidia.com;dynamographdeploymentscalingadapters.nvidia.com,verbs=patch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments;dynamographdeploymentscalingadapters,verbs=list;patch

// Reconciler rewrites the objects of the CustomResourceDefinitions whose objects Trellis converts. No other part of Trellis writes
// status.storedVersions and ConditionStorageMigrated.
type Reconciler struct {
	// Client reads definitions and writes their status. It reads from the API server, because the manager's cache has only other
	// definitions.
	Client client.Client
	// Objects lists and writes the objects as metadata.
	Objects metadata.Interface
	// Namespaces are the namespaces whose objects may be written; empty: all.
	Namespaces []string
	Clock      clock.PassiveClock
	// Settle is how long a definition must be unchanged, as observed by this process.
	Settle time.Duration
	// seen has, by definition, the current revision and the time at which this process first saw it. Only the single worker accesses it.
	seen map[string]sighting
}

type sighting struct {
	revision
	since time.Time
}

// Reconcile rewrites the objects of one definition if some may be stored in another version.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := r.Client.Get(ctx, req.NamespacedName, crd); err != nil {
		if apierrors.IsNotFound(err) {
			resource, _, _ := strings.Cut(req.Name, ".")
			remaining.DeleteLabelValues(resource)
			complete.DeleteLabelValues(resource)
			delete(r.seen, req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if len(outdated(crd)) == 0 {
		remaining.WithLabelValues(crd.Spec.Names.Plural).Set(0)
		complete.WithLabelValues(crd.Spec.Names.Plural).Set(1)
		return reconcile.Result{}, r.report(ctx, crd, migrated(crd))
	}
	complete.WithLabelValues(crd.Spec.Names.Plural).Set(0)
	if wait := r.unsettled(crd); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.migrate(ctx, crd); !apierrors.IsConflict(err) {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: time.Second}, nil // another client has changed the definition
}

// unsettled returns how much longer a definition must stay unchanged.
func (r *Reconciler) unsettled(crd *apiextensionsv1.CustomResourceDefinition) time.Duration {
	if r.seen == nil {
		r.seen = map[string]sighting{}
	}
	if r.seen[crd.Name].revision != revisionOf(crd) {
		r.seen[crd.Name] = sighting{revisionOf(crd), r.Clock.Now()}
	}
	return r.Settle - r.Clock.Since(r.seen[crd.Name].since)
}

// migrate rewrites all objects, and then reports the result in the definition.
func (r *Reconciler) migrate(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	if have := apihelpers.FindCRDCondition(crd, ConditionStorageMigrated); have == nil || have.Reason == reasonMigrated ||
		have.Reason == reasonRewriting {
		if err := r.report(ctx, crd, rewriting(crd)); err != nil {
			return err
		}
	}
	logger, to := log.FromContext(ctx).WithValues("from", outdated(crd), "to", storageVersion(crd)), revisionOf(crd)
	logger.Info("rewriting stored objects")
	refusals, err := r.rewrite(ctx, crd)
	if err != nil {
		return err
	}
	if len(refusals) > 0 {
		if err := r.report(ctx, crd, refused(crd, refusals)); err != nil {
			return err
		}
		return fmt.Errorf("%d objects are refused as they are, the first of them %s", len(refusals), refusals[0])
	}
	if len(r.Namespaces) > 0 {
		logger.Info("rewrote the stored objects of the managed namespaces; a cluster admin has to see to the others", "namespaces", r.Namespaces)
		return r.report(ctx, crd, otherNamespaces(crd, r.Namespaces))
	}
	return r.finish(ctx, crd.Name, to)
}

func (r *Reconciler) rewrite(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) ([]refusal, error) {
	namespaces := r.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{corev1.NamespaceAll}
	}
	var refusals []refusal
	for _, namespace := range namespaces {
		count := func(n int64) {
			remaining.WithLabelValues(crd.Spec.Names.Plural).Set(float64(n + int64(len(refusals))))
		}
		found, err := rewriter{r.Objects, count}.all(ctx, resourceOf(crd), namespace)
		if err != nil {
			return nil, err
		}
		refusals = append(refusals, found...)
	}
	return refusals, nil
}

// finish removes the outdated versions from status.storedVersions of a definition, after all its objects were rewritten. If the definition
// has changed meanwhile, finish changes nothing, because the change triggers another reconcile.
func (r *Reconciler) finish(ctx context.Context, name string, rewritten revision) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := crd.DeepCopy()
	if !shrink(crd, rewritten) {
		return nil
	}
	apihelpers.SetCRDCondition(crd, migrated(crd))
	if err := r.write(ctx, crd, before); err != nil {
		return err
	}
	complete.WithLabelValues(crd.Spec.Names.Plural).Set(1)
	log.FromContext(ctx).Info("all objects are stored in one version", "version", storageVersion(crd))
	return nil
}

// report sets the condition if it has changed.
func (r *Reconciler) report(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition,
	now apiextensionsv1.CustomResourceDefinitionCondition) error {
	if have := apihelpers.FindCRDCondition(crd, now.Type); have != nil && have.Status == now.Status && have.Reason == now.Reason &&
		have.Message == now.Message {
		return nil
	}
	before := crd.DeepCopy()
	now.LastTransitionTime = metav1.NewTime(r.Clock.Now())
	apihelpers.SetCRDCondition(crd, now)
	return r.write(ctx, crd, before)
}

// write patches the status of a definition, provided no other client has changed the definition meanwhile.
func (r *Reconciler) write(ctx context.Context, crd, before *apiextensionsv1.CustomResourceDefinition) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, crd, patch, client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("writing the status of definition %s: %w", crd.Name, err)
	}
	return nil
}

// SetupWithManager adds the controller for the objects of the given namespaces, or of all namespaces if none are given. It uses its own
// clients; the client for objects has its own rate limit.
func SetupWithManager(mgr ctrl.Manager, namespaces []string) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(),
		Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	bounded := rest.CopyConfig(mgr.GetConfig())
	bounded.QPS, bounded.Burst, bounded.RateLimiter = requestsPerSecond, requestsPerSecond, nil
	objects, err := metadata.NewForConfig(bounded)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	return (&Reconciler{Client: direct, Objects: objects, Namespaces: namespaces, Clock: clock.RealClock{}, Settle: settle}).setup(mgr)
}

// setup adds the controller. It watches each definition by name, so that permission to read these definitions is sufficient.
func (r *Reconciler) setup(mgr ctrl.Manager) error {
	builder := ctrl.NewControllerManagedBy(mgr).Named("storageversion").WithOptions(controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 5*time.Minute),
	})
	for _, name := range slices.Sorted(maps.Values(convert.Definitions)) {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		definition, err := named.Cache(mgr, crd)
		if err != nil {
			return err
		}
		if err := mgr.Add(definition); err != nil {
			return err
		}
		builder = builder.WatchesRawSource(source.Kind(definition, crd,
			&handler.TypedEnqueueRequestForObject[*apiextensionsv1.CustomResourceDefinition]{}, changes()))
	}
	return builder.Complete(r)
}

// changes filters out updates that do not concern versions, such as updates of the controller's own conditions.
func changes() predicate.TypedFuncs[*apiextensionsv1.CustomResourceDefinition] {
	return predicate.TypedFuncs[*apiextensionsv1.CustomResourceDefinition]{
		UpdateFunc: func(e event.TypedUpdateEvent[*apiextensionsv1.CustomResourceDefinition]) bool {
			return revisionOf(e.ObjectOld) != revisionOf(e.ObjectNew) || !slices.Equal(e.ObjectOld.Status.StoredVersions,
				e.ObjectNew.Status.StoredVersions)
		},
	}
}
