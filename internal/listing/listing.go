// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listing reads lists of the API server in pages, which bounds the memory that objects of tenants take.
package listing

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// page is the maximum number of objects in a response without a limit of the caller. The API server accepts objects of 1.5 MiB.
const page = 64

// Each calls visit with each object of a list. empty is an empty list of the kind, and items returns the objects of a response. Each ends
// at the first error, which is that of the API server or of visit. It keeps no object after visit. Each response is decoded into a list of
// its own, because decoding into an old one would write to its maps.
func Each[L client.ObjectList, T any](
	ctx context.Context, c client.Reader, empty L, items func(L) []T, visit func(*T) error, options ...client.ListOption,
) error {
	for token := ""; ; {
		list := empty.DeepCopyObject().(L)
		if err := c.List(ctx, list, slices.Concat([]client.ListOption{client.Limit(page)}, options,
			[]client.ListOption{client.Continue(token)})...); err != nil {
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
