// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// upgraded serves the kinds of devices, and rules about them once it is told so.
type upgraded struct {
	meta.RESTMapper
	rules atomic.Bool
}

// RESTMapping implements meta.RESTMapper.
func (u *upgraded) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	if kind.Kind == "DeviceTaintRule" && !u.rules.Load() {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	return &meta.RESTMapping{}, nil
}

// informed tells which kinds are followed, and has none of them.
type informed struct {
	cache.Cache
	kinds chan string
}

// GetInformer implements cache.Cache.
func (i *informed) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	i.kinds <- fmt.Sprintf("%T", o)
	return noInformer{}, nil
}

type noInformer struct{ cache.Informer }

// AddEventHandler implements cache.Informer.
func (noInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return registered{}, nil
}

type registered struct {
	toolscache.ResourceEventHandlerRegistration
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (registered) HasSynced() bool { return true }

// Rules about devices that the API server begins to serve while the operator runs are followed, too.
func TestRulesServedLater(t *testing.T) {
	clock, mapper := testclock.NewFakeClock(time.Unix(0, 0)), &upgraded{}
	cached := &informed{kinds: make(chan string, 16)}
	d := &devices{cache: cached, mapper: mapper, clock: clock, known: func(func() bool) {}}
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if kind := <-cached.kinds; kind == "*v1.DeviceTaintRule" {
			t.Fatal("rules are followed that are not served")
		}
	}
	mapper.rules.Store(true)
	for patience := time.After(suite.Patience()); ; {
		select {
		case kind := <-cached.kinds:
			if kind != "*v1.DeviceTaintRule" {
				t.Errorf("%s is followed", kind)
			}
			return
		case <-patience:
			t.Fatal("rules are not followed")
		case <-time.After(time.Millisecond):
			if clock.HasWaiters() {
				clock.Step(devicesEvery)
			}
		}
	}
}
