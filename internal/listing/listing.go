// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listing reads lists past caches in pages, which bounds the memory that objects of tenants take.
package listing

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// page is the maximum number of objects in a response. The API server accepts objects of 1.5 MiB.
const page = 64

// Each calls visit with each object of a list. items returns the objects of a response. Each ends at the first error, which is that of the
// API server or of visit. An object is not kept after visit.
func Each[L, T any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, c client.Reader, items func(*L) []T, visit func(*T) error, options ...client.ListOption) error {
	for token := ""; ; {
		list := P(new(L))
		if err := c.List(ctx, list, append(options[:len(options):len(options)], client.Limit(page), client.Continue(token))...); err != nil {
			return err
		}
		read := items(list)
		for i := range read {
			if err := visit(&read[i]); err != nil {
				return err
			}
		}
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}
