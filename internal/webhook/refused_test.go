// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// isInSync reads the metric.
func isInSync(t testing.TB) float64 {
	t.Helper()
	var out dto.Metric
	if err := inSync.WithLabelValues().Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetGauge().GetValue()
}

// plain reads without options.
type plain struct{ client.Client }

func (p plain) Get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	return p.Client.Get(ctx, key, object)
}

// What refuses the Secret is an error that comes again, and shows in the metric.
func TestRefusedSecretIsNotInSync(t *testing.T) {
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("exceeded quota: secrets")
		},
	})
	f := &follower{opts: CertOptions{Namespace: operatorNamespace, SecretName: certSecret, Certificate: &Certificate{}}, reader: plain{c}, writer: c}
	inSync.WithLabelValues().Set(1)
	if _, err := f.Reconcile(t.Context(), reconcile.Request{}); err == nil || !strings.Contains(err.Error(), "creating Secret trellis-system/trellis-webhook-server-cert: exceeded quota") {
		t.Errorf("got %v", err)
	}
	if got := isInSync(t); got != 0 {
		t.Errorf("in sync: %v", got)
	}
}
