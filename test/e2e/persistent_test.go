// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// persistent returns a client that repeats calls while API server, webhooks or conversion are not there: a user who tries again.
func persistent(c client.WithWatch) client.WithWatch { return repeating(c, unanswered) }

// patient returns a client that repeats calls that ran out of the API server's time, as they do on a busy machine. What is refused, or not
// there, fails at once.
func patient(c client.WithWatch) client.WithWatch { return repeating(c, timedOut) }

// repeating returns a client that repeats a call after the errors that again names.
func repeating(c client.WithWatch, again func(error) bool) client.WithWatch {
	answered := func(ctx context.Context, done func(error) bool, call func() error) error {
		return repeat(ctx, again, done, call)
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return answered(ctx, nil, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return answered(ctx, nil, func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return answered(ctx, apierrors.IsAlreadyExists, func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return answered(ctx, apierrors.IsNotFound, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return answered(ctx, nil, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
	})
}

// persist repeats a call until it is answered.
func persist(ctx context.Context, call func() error) error { return repeat(ctx, unanswered, nil, call) }

// repeat repeats a call after the errors that again names. done recognizes the answer to a repeated call whose first attempt was carried out.
func repeat(ctx context.Context, again, done func(error) bool, call func() error) error {
	var last error
	repeated := false
	err := wait.PollUntilContextTimeout(ctx, betweenAttempts, suite.Patience(), true, func(context.Context) (bool, error) {
		last = call()
		if again(last) {
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

// timedOut: the API server gave the call up, since it or a webhook that it asked took too long.
func timedOut(err error) bool {
	late := apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook") && strings.Contains(err.Error(), "context deadline exceeded")
	return late || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// What a webhook refuses, or an API server that is not there, is no call that took too long.
func TestTimedOut(t *testing.T) {
	webhook := func(why string) error {
		return apierrors.NewInternalError(errors.New(`failed calling webhook "validate.example": failed to call webhook: Post "https://example": ` + why))
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                     {nil, false},
		"the API server is late":       {apierrors.NewTimeoutError("late", 1), true},
		"a webhook is late":            {webhook("context deadline exceeded"), true},
		"a webhook is not there":       {webhook("dial tcp 127.0.0.1:1: connect: connection refused"), false},
		"a webhook refuses":            {apierrors.NewForbidden(schema.GroupResource{}, "g", errors.New("denied")), false},
		"the call's own time is over":  {context.DeadlineExceeded, false},
		"the API server is not there":  {syscall.ECONNREFUSED, false},
		"the API server has no answer": {apierrors.NewInternalError(errors.New("context deadline exceeded")), false},
	} {
		if got := timedOut(c.err); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
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
