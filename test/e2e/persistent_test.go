// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// persistence is how long a call is repeated while API server, webhooks or conversion do not answer.
const persistence = 3 * time.Minute

// persistent returns a client that repeats calls while they are not answered: a user who tries again.
func persistent(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return persist(ctx, nil, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return persist(ctx, nil, func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return persist(ctx, apierrors.IsAlreadyExists, func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return persist(ctx, apierrors.IsNotFound, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return persist(ctx, nil, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
	})
}

// persist repeats a call until it is answered. done recognizes the answer to a repeated call whose first attempt was carried out.
func persist(ctx context.Context, done func(error) bool, call func() error) error {
	var last error
	repeated := false
	err := wait.PollUntilContextTimeout(ctx, betweenAttempts, persistence, true, func(context.Context) (bool, error) {
		last = call()
		if unanswered(last) {
			repeated = true
			return false, nil
		}
		if repeated && done != nil && done(last) {
			last = nil
		}
		return true, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}

// unanswered: the API server, or a webhook that it asked, is not there, or cannot read what it needs.
func unanswered(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return strings.Contains(err.Error(), "Internal error: failed to read") || code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	return true
}
