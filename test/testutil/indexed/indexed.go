// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package indexed makes fake clients with the indexes of the operator's cache.
package indexed

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// NewClientBuilder returns a builder that knows pods, nodes and scaling groups, with the indexes of [scheduler.AddIndexes].
func NewClientBuilder(t testing.TB) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, trellisv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	if err := scheduler.AddIndexes(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	return builder
}

// indexer adds indexes to a fake client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(object, field, values)
	return nil
}
