// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/sandbox"
)

// The Secret of the webhooks' certificate is deleted while the operator runs, and while none does: it is made again each time, and writes are admitted and
// converted. The first restart starts with the Secret that was made again.
func TestCertificateSecretIsDeleted(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t, "certificate")
	w := newWorldIn(t, e, "certificate", racks(2, 8, "a/r0")...)
	name := key("trellis-system", "trellis-webhook-server-cert")
	lose := func() (was types.UID) {
		t.Helper()
		secret := &corev1.Secret{}
		if err := w.c.Get(t.Context(), name, secret); err != nil {
			t.Fatal(err)
		}
		if err := w.c.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		return secret.UID
	}
	admits := func(was types.UID) {
		t.Helper()
		w.until("the Secret is made again", func() error {
			secret := &corev1.Secret{}
			err := w.c.Get(t.Context(), name, secret)
			if err == nil && (secret.UID == was || len(secret.Data) < 4) {
				err = errors.New("it is the former one, or not filled yet")
			}
			return err
		})
		w.until("a write in v1alpha1 is admitted and converted", func() error {
			probe := w.graphOf("probe", "zone", services{"Worker": worker(1, 2, 8, "rack")})
			return w.c.Create(t.Context(), probe, client.DryRunAll)
		})
		wrong := w.graphOf("wrong", "moon", services{"Worker": worker(1, 2, 8, "rack")})
		refused(t, w.c.Create(t.Context(), wrong), "packDomain not found in cluster topology")
	}
	start := func() {
		t.Helper()
		if err := e.cluster.StartManager(t.Context(), sandbox.ManagerOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	t.Log("while it runs")
	admits(lose())
	t.Log("after a restart")
	e.stopOperator(t)
	start()
	admits("")
	t.Log("while none runs")
	e.stopOperator(t)
	was := lose()
	start()
	admits(was)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
	w.ready("g")
	if secret := get(w, &corev1.Secret{}, name.Namespace, name.Name); secret.Labels["app.kubernetes.io/name"] != "trellis" || metav1.GetControllerOf(secret) != nil {
		t.Errorf("labels %v, owners %v", secret.Labels, secret.OwnerReferences)
	}
}
