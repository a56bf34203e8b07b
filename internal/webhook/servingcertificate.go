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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-k8s/trellis/internal/bools"
)

// authorityKey is the key of the certificate authority in the Secret. The rotator fills it.
const authorityKey = "ca.crt"

// Certificate holds the webhooks' certificate in memory. It is loaded from the Secret directly, not from mounted files, so that neither a
// first start nor a renewal has to wait for the kubelet, which takes a minute or two to update the files. The zero value is ready to use
// and empty.
type Certificate struct {
	current atomic.Pointer[tls.Certificate]
}

// ServeWith makes a webhook server use this certificate. It is an option of the server.
func (c *Certificate) ServeWith(config *tls.Config) { config.GetCertificate = c.get }

// OldestTLS makes a server refuse TLS versions before 1.3. The API server and all metrics scrapers support TLS 1.3.
func OldestTLS(config *tls.Config) { config.MinVersion = tls.VersionTLS13 }

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return current, nil
	}
	return nil, errors.New("the webhooks' certificate is not made yet")
}

// follower keeps a Certificate equal to the Secret, and keeps the authority in the CustomResourceDefinitions up to date. It closes ready
// once every webhook configuration and every definition trusts the certificate.
type follower struct {
	opts CertOptions
	// reader reads the watched objects.
	reader interface {
		Get(context.Context, client.ObjectKey, client.Object) error
	}
	writer client.Writer
	ready  chan struct{}
	// pair contains the certificate in use and its key. trusted is true once ready is closed.
	pair    [2][]byte
	trusted bool
}

func secretOf(opts CertOptions) types.NamespacedName {
	return types.NamespacedName{Namespace: opts.Namespace, Name: opts.SecretName}
}

// Reconcile loads a new certificate, and sets the metric inSync.
func (f *follower) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	kept, err := f.takeOver(ctx)
	if err != nil {
		inSync.WithLabelValues().Set(0)
		return reconcile.Result{}, fmt.Errorf("the webhooks' certificate is not in use everywhere yet: %w", err)
	}
	inSync.WithLabelValues().Set(float64(bools.Int(kept)))
	return reconcile.Result{}, nil
}

// takeOver loads a new certificate. If the Secret was deleted, takeOver creates an empty Secret again, which the rotator fills. Until then,
// the current certificate stays in use.
func (f *follower) takeOver(ctx context.Context) (kept bool, err error) {
	var secret corev1.Secret
	if err := f.reader.Get(ctx, secretOf(f.opts), &secret); err != nil {
		if !apierrors.IsNotFound(err) {
			return false, err
		}
		log.FromContext(ctx).Info("the Secret of the webhooks' certificate is gone and is made again", "secret", secretOf(f.opts))
		return false, createSecret(ctx, f.writer, secretOf(f.opts))
	}
	if err := f.use([2][]byte{secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]}); err != nil {
		return false, err
	}
	authority := secret.Data[authorityKey]
	if len(authority) == 0 {
		return false, nil
	}
	if err := f.injectAuthority(ctx, authority); err != nil {
		return false, err
	}
	if f.trusted || f.opts.Certificate.current.Load() == nil {
		return true, nil
	}
	trusted, err := f.isTrusted(ctx, authority)
	if err != nil || !trusted {
		return false, err
	}
	f.trusted = true
	close(f.ready)
	return true, nil
}

// use starts serving a certificate if the pair is not empty and differs from the current pair.
func (f *follower) use(pair [2][]byte) error {
	if len(pair[0]) == 0 || len(pair[1]) == 0 || bytes.Equal(pair[0], f.pair[0]) && bytes.Equal(pair[1], f.pair[1]) {
		return nil
	}
	made, err := tls.X509KeyPair(pair[0], pair[1])
	if err != nil {
		return fmt.Errorf("reading %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	f.pair = pair
	f.opts.Certificate.current.Store(&made)
	return nil
}
