// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/trellis-k8s/trellis/internal/named"
)

// everywhere is a cache that also runs on a standby.
type everywhere struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// watched reads single objects. Each object has its own cache, with the object's type and name as key.
type watched map[string]cache.Cache

func cacheOf(object client.Object, name string) string { return fmt.Sprintf("%T %s", object, name) }

// Get reads one of the watched objects.
func (w watched) Get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	return w[cacheOf(object, key.Name)].Get(ctx, key, object)
}

// objects returns the objects that a follower reads: the Secret, the webhook configurations and the CustomResourceDefinitions.
func (o CertOptions) objects() []client.Object {
	called := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	objects := []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.SecretName}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: called(o.MutatingWebhookConfig)},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: called(o.ValidatingWebhookConfig)},
	}
	for _, name := range o.Definitions {
		objects = append(objects, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: called(name)})
	}
	return objects
}

// follow adds a follower to the manager. The follower runs on every replica of the operator, because a standby also serves webhooks. Each
// event makes the follower evaluate all objects.
func follow(mgr ctrl.Manager, opts CertOptions) (*follower, error) {
	objects := watched{}
	f := &follower{opts: opts, reader: objects, writer: mgr.GetClient(), ready: make(chan struct{})}
	builder := ctrl.NewControllerManagedBy(mgr).Named("certificate").WithOptions(controller.Options{
		NeedLeaderElection: ptr.To(false), SkipNameValidation: ptr.To(true),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second),
	})
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: secretOf(opts)}}
	})
	for _, object := range opts.objects() {
		opened, err := named.Cache(mgr, object)
		if err != nil {
			return nil, err
		}
		if err := mgr.Add(everywhere{opened}); err != nil {
			return nil, err
		}
		objects[cacheOf(object, object.GetName())] = opened
		builder = builder.WatchesRawSource(source.Kind(opened, object, all))
	}
	return f, builder.Complete(f)
}
