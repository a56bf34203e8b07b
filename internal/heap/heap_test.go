// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 100, 1 << 20: 100, growth: 100, 2 * growth: 50, 160 << 20: 25, 1 << 30: 25,
	} {
		if got := percent(live); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d", live>>20, got, want)
		}
	}
}

// A process that comes to hold much is collected at less growth, and as before when it has let go of it.
func TestBound(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(most))
	want := func(what string, want int) {
		t.Helper()
		got := -1
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && got != want; {
			runtime.GC()
			got = debug.SetGCPercent(most)
			debug.SetGCPercent(got)
		}
		if got != want {
			t.Errorf("%s: GOGC %d, want %d", what, got, want)
		}
	}
	Bound()
	want("little", most)
	func() {
		much := make([]byte, 2*growth/least*100)
		want("much", least)
		runtime.KeepAlive(much)
	}()
	want("little again", most)
}
