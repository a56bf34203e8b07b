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

// authorityKey of the certificate's Secret is what the API server must trust; the rotator fills it.
const authorityKey = "ca.crt"

// Certificate is what the webhooks are served with, kept in memory. It follows the Secret, so that neither a first start nor a renewal has
// to wait until the kubelet brings the Secret's files up to date, which takes a minute or two. The zero value is usable and holds nothing.
type Certificate struct {
	current atomic.Pointer[tls.Certificate]
}

// ServeWith makes a server take its certificate from here; it is an option of the webhook server.
func (c *Certificate) ServeWith(config *tls.Config) { config.GetCertificate = c.get }

// OldestTLS makes a server refuse what is older than TLS 1.3: the API server and everything that scrapes metrics speak it.
func OldestTLS(config *tls.Config) { config.MinVersion = tls.VersionTLS13 }

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return current, nil
	}
	return nil, errors.New("the webhooks' certificate is not made yet")
}

// follower keeps a Certificate equal to the Secret and the authority in the definitions, and closes ready once there is a certificate that
// every webhook configuration and every definition trusts.
type follower struct {
	opts CertOptions
	// reader reads what is watched.
	reader interface {
		Get(context.Context, client.ObjectKey, client.Object) error
	}
	writer client.Writer
	ready  chan struct{}
	// pair is what the certificate was made from, and trusted that ready is closed.
	pair    [2][]byte
	trusted bool
}

func secretOf(opts CertOptions) types.NamespacedName {
	return types.NamespacedName{Namespace: opts.Namespace, Name: opts.SecretName}
}

// Reconcile takes a new certificate over, and reports in the metric whether what is served is kept.
func (f *follower) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	kept, err := f.takeOver(ctx)
	if err != nil {
		inSync.WithLabelValues().Set(0)
		return reconcile.Result{}, fmt.Errorf("the webhooks' certificate is not in use everywhere yet: %w", err)
	}
	inSync.WithLabelValues().Set(float64(bools.Int(kept)))
	return reconcile.Result{}, nil
}

// takeOver takes a new certificate over. A Secret that is gone is made again. It is empty then, and takes nothing away: the rotator is
// about to fill it.
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

// use serves with a certificate, if there is one and it is new.
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
