// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Anything that is written, made or deleted of a graph that is not next is found.
func TestUntouched(t *testing.T) {
	before := map[types.UID]state{"a": {"Pod a", "1"}, "b": {"Pod b", "2"}}
	for want, after := range map[string]map[types.UID]state{
		"":                  {"a": {"Pod a", "1"}, "b": {"Pod b", "2"}},
		"Pod b was written": {"a": {"Pod a", "1"}, "b": {"Pod b", "3"}},
		"Pod b was deleted": {"a": {"Pod a", "1"}},
		"Event c was made":  {"a": {"Pod a", "1"}, "b": {"Pod b", "2"}, "c": {"Event c", "1"}},
	} {
		got := ""
		if err := untouched(before, after); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A request that was due before the lost replica had left the Service counts apart.
func TestLostCounts(t *testing.T) {
	left := time.Now()
	one := errors.New("refused")
	var lost Lost
	lost.count([]Asked{
		{Start: left.Add(time.Second), Err: errors.New("later")}, {Start: left.Add(-time.Second), Err: one}, {Start: left.Add(2 * time.Second)},
	}, left)
	if lost.Asked != 3 || lost.AtKill != 1 || lost.Failed != 1 || !errors.Is(lost.FirstError, one) {
		t.Errorf("%+v", lost)
	}
}

// A replica leaves the Service when it has ended, not when it answers late, and comes back when it is ready.
func TestServiceFollowsReplicas(t *testing.T) {
	s := &service{ready: []string{"a", "b"}, left: map[string]time.Time{}}
	s.follow("a", errors.New("late"))
	if len(s.ready) != 2 {
		t.Errorf("ready after a late answer: %v", s.ready)
	}
	s.follow("a", &net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	if len(s.ready) != 1 || s.ready[0] != "b" || s.leftAt("a").IsZero() || !s.leftAt("b").IsZero() {
		t.Errorf("ready after the end: %v, left %v", s.ready, s.left)
	}
	s.follow("a", nil)
	s.follow("a", nil)
	if len(s.ready) != 2 {
		t.Errorf("ready when it is back: %v", s.ready)
	}
}

func TestSetPort(t *testing.T) {
	config := func() map[string]any {
		return map[string]any{"clientConfig": map[string]any{"service": map[string]any{"name": "s", "port": int64(1)}}}
	}
	for name, o := range map[string]map[string]any{
		"admission":  {"webhooks": []any{config(), config()}},
		"conversion": {"spec": map[string]any{"conversion": map[string]any{"webhook": config()}}},
	} {
		if !setPort(&unstructured.Unstructured{Object: o}, 2) {
			t.Errorf("%s: unchanged", name)
		}
	}
	hooks := map[string]any{"webhooks": []any{config()}}
	setPort(&unstructured.Unstructured{Object: hooks}, 2)
	port, _, err := unstructured.NestedInt64(hooks["webhooks"].([]any)[0].(map[string]any), "clientConfig", "service", "port")
	if err != nil || port != 2 {
		t.Errorf("port %d, %v", port, err)
	}
	if setPort(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}, 2) {
		t.Error("a definition without conversion changed")
	}
}
