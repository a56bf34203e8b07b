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

	"k8s.io/apimachinery/pkg/types"
)

// TestUntouched checks that every write, creation or deletion of an object of a waiting graph is found.
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

// TestLostCounts checks that requests due before the lost replica had left the Service are counted separately.
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

// TestServiceFollowsReplicas checks that a replica leaves the Service when it has ended, not when it responds late, and returns when it is
// ready.
func TestServiceFollowsReplicas(t *testing.T) {
	s, err := newService(map[string]string{"a": "a:1", "b": "b:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.follow("a", errors.New("late"))
	if ready := s.Ready(); len(ready) != 2 {
		t.Errorf("ready after a late answer: %v", ready)
	}
	s.follow("a", &net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	if ready := s.Ready(); len(ready) != 1 || ready[0] != "b:1" || s.leftAt("a").IsZero() || !s.leftAt("b").IsZero() {
		t.Errorf("ready after the end: %v, left %v", ready, s.left)
	}
	s.follow("a", nil)
	s.follow("a", nil)
	if ready := s.Ready(); len(ready) != 2 {
		t.Errorf("ready when it is back: %v", ready)
	}
}
