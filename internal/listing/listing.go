// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listing reads lists from the API server in pages, to bound the memory for objects that tenants create.
package listing

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// page is the maximum number of objects in a response if the caller sets no limit. The API server accepts objects of up to 1.5 MiB.
const page = 64

// Each calls visit with each object of a list. empty is an empty list of the kind, and items returns the objects in a response. Each stops
// at the first error, from the API server or from visit, and returns it. It keeps no object after visit returns. It decodes each response
// into a new list, because decoding into an old list would write to the maps of earlier objects.
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
