// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// authorityKey of the certificate's Secret is what the webhook configurations must trust; the rotator fills it.
const authorityKey = "ca.crt"

// Certificate is what the webhooks are served with, kept in memory. It follows the Secret, so that neither a first start nor a renewal has
// to wait until the kubelet brings the Secret's files up to date, which takes a minute or two. The zero value is usable and holds nothing.
type Certificate struct {
	current atomic.Pointer[tls.Certificate]
}

// ServeWith makes a server take its certificate from here; it is an option of the webhook server.
func (c *Certificate) ServeWith(config *tls.Config) { config.GetCertificate = c.get }

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return current, nil
	}
	return nil, errors.New("the webhooks' certificate is not made yet")
}

// follower keeps a Certificate equal to the Secret, and closes ready once there is one that every webhook configuration trusts.
type follower struct {
	opts    CertOptions
	cache   cache.Cache
	changed chan struct{}
	ready   chan struct{}
	// pair is what the certificate was made from, and trusted that ready is closed.
	pair    [2][]byte
	trusted bool
}

// follow adds a follower to the manager. Its cache holds three objects, each watched by its name.
func follow(mgr ctrl.Manager, opts CertOptions) (*follower, error) {
	secret, named := secretOf(opts), func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	objects := map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{secret.Namespace: {FieldSelector: named(secret.Name)}}},
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   {Field: named(opts.MutatingWebhookConfig)},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: {Field: named(opts.ValidatingWebhookConfig)},
	}
	watched, err := cache.New(mgr.GetConfig(), cache.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), ByObject: objects})
	if err != nil {
		return nil, fmt.Errorf("preparing to watch the certificate: %w", err)
	}
	f := &follower{opts: opts, cache: watched, changed: make(chan struct{}, 1), ready: make(chan struct{})}
	wake := func(any) {
		select {
		case f.changed <- struct{}{}:
		default: // it will look anyway
		}
	}
	for object := range objects {
		informer, err := watched.GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, now any) { wake(now) }, DeleteFunc: wake}); err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return f, mgr.Add(f)
}

func secretOf(opts CertOptions) types.NamespacedName {
	return types.NamespacedName{Namespace: opts.Namespace, Name: opts.SecretName}
}

// NeedLeaderElection is false: a standby serves too.
func (f *follower) NeedLeaderElection() bool { return false }

// Start follows until ctx ends.
func (f *follower) Start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- f.cache.Start(ctx) }()
	f.cache.WaitForCacheSync(ctx)
	for {
		select {
		case <-f.changed:
			if err := f.look(ctx); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "the webhooks' certificate cannot be used; what is served stays as it is", "secret", secretOf(f.opts))
			}
		case err := <-ended:
			return err
		}
	}
}

// look takes a new certificate over. A Secret that is empty or gone takes nothing away: the rotator is about to fill it.
func (f *follower) look(ctx context.Context) error {
	var secret corev1.Secret
	if err := f.cache.Get(ctx, secretOf(f.opts), &secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	pair := [2][]byte{secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]}
	if len(pair[0]) == 0 || len(pair[1]) == 0 {
		return nil
	}
	if !bytes.Equal(pair[0], f.pair[0]) || !bytes.Equal(pair[1], f.pair[1]) {
		made, err := tls.X509KeyPair(pair[0], pair[1])
		if err != nil {
			return fmt.Errorf("reading %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
		}
		f.pair = pair
		f.opts.Certificate.current.Store(&made)
	}
	if f.trusted {
		return nil
	}
	trusted, err := f.isTrusted(ctx, secret.Data[authorityKey])
	if err != nil || !trusted {
		return err
	}
	f.trusted = true
	close(f.ready)
	return nil
}

// isTrusted says whether all webhooks know the authority: before, the API server would not believe the certificate.
func (f *follower) isTrusted(ctx context.Context, authority []byte) (bool, error) {
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	for name, object := range map[string]client.Object{f.opts.MutatingWebhookConfig: &mutating, f.opts.ValidatingWebhookConfig: &validating} {
		if err := f.cache.Get(ctx, types.NamespacedName{Name: name}, object); err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("reading %T %s: %w", object, name, err)
		}
	}
	var calls []admissionregistrationv1.WebhookClientConfig
	for i := range mutating.Webhooks {
		calls = append(calls, mutating.Webhooks[i].ClientConfig)
	}
	for i := range validating.Webhooks {
		calls = append(calls, validating.Webhooks[i].ClientConfig)
	}
	for _, call := range calls {
		if !bytes.Equal(call.CABundle, authority) {
			return false, nil
		}
	}
	return true, nil
}
