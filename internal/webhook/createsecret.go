// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// createWithin bounds the time of the requests at startup. It can be short, because a failed start is repeated.
const createWithin = 10 * time.Second

// ensureSecret creates the Secret before the rotator starts, because the rotator ends the program if the Secret is missing.
func ensureSecret(mgr ctrl.Manager, opts CertOptions) error {
	ctx, cancel := context.WithTimeout(context.Background(), createWithin)
	defer cancel()
	name, secrets := secretOf(opts), &corev1.SecretList{}
	// The operator has the right to list the Secret with this name, but not to get it.
	if err := mgr.GetAPIReader().List(ctx, secrets, client.InNamespace(name.Namespace),
		client.MatchingFields{"metadata.name": name.Name}); err != nil {
		return fmt.Errorf("reading Secret %s: %w", name, err)
	}
	if len(secrets.Items) > 0 {
		return nil
	}
	return createSecret(ctx, mgr.GetClient(), name)
}

// createSecret creates an empty Secret, as in the shipped manifests. The rotator fills it. If the Secret exists, another replica of the
// operator has created it.
func createSecret(ctx context.Context, writer client.Writer, name types.NamespacedName) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			Labels: map[string]string{"app.kubernetes.io/name": "trellis", "app.kubernetes.io/component": "manager"},
		},
		Type: corev1.SecretTypeOpaque,
	}
	if err := writer.Create(ctx, secret, client.FieldOwner(fieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %s: %w", name, err)
	}
	return nil
}
