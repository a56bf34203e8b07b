// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// behind is a client whose cache never shows what was written.
type behind struct {
	client.Client
	stale int
	err   error
}

func (b *behind) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, opts ...client.GetOption) error {
	return b.read(ctx, (&client.GetOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency)
}

func (b *behind) List(ctx context.Context, _ client.ObjectList, opts ...client.ListOption) error {
	return b.read(ctx, (&client.ListOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency)
}

func (b *behind) read(ctx context.Context, stale bool) error {
	if stale {
		b.stale++
		return b.err
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestReadsDoNotWaitForEver(t *testing.T) {
	reads := map[string]func(context.Context, client.Client) error{
		"get":  func(ctx context.Context, c client.Client) error { return c.Get(ctx, client.ObjectKey{}, &corev1.Pod{}) },
		"list": func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.PodList{}) },
	}
	notFound := errors.New("not there")
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, upstream := time.Now(), &behind{}
				c := patient{Client: upstream, wait: ownWritesWithin, deletes: &ownDeletes{}}
				if err := read(t.Context(), c); err != nil || upstream.stale != 1 || time.Since(begin) != ownWritesWithin {
					t.Errorf("%v after %s, %d reads as is", err, time.Since(begin), upstream.stale)
				}
				upstream.err = notFound
				if err := read(t.Context(), c); !errors.Is(err, notFound) {
					t.Errorf("%v, want what the cache says", err)
				}

				ending, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				upstream.stale = 0
				if err := read(ending, c); !errors.Is(err, context.DeadlineExceeded) || upstream.stale != 0 {
					t.Errorf("the caller's time is up: %v, %d reads as is", err, upstream.stale)
				}
			})
		})
	}
}
