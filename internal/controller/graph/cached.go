// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cached reads the cache as it is: everything but the deployment itself.
//
// Reads of the operator's client wait until the cache shows the operator's writes of the kind that are under way. Of scaling groups these are
// statuses, which another controller writes; with many deployments at once there is always one, and each reconcile waited for those of all others.
// What this controller writes itself, it applies, creates or deletes once more if the cache lags behind: it looks past the cache before it creates, and
// deletes by UID.
func (r *Reconciler) cached() client.Reader { return asIs{r.Client} }

type asIs struct{ reader client.Reader }

// Get implements [client.Reader].
func (a asIs) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return a.reader.Get(ctx, key, object, append(options[:len(options):len(options)], client.DisableReadYourWritesConsistency)...)
}

// List implements [client.Reader].
func (a asIs) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return a.reader.List(ctx, list, append(options[:len(options):len(options)], client.DisableReadYourWritesConsistency)...)
}
