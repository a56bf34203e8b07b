// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
	"time"
)

// TestOrder checks that every side works in every round, and that three sides have had every order after six rounds.
func TestOrder(t *testing.T) {
	seen := map[string]bool{}
	for round := range 6 {
		seen[fmt.Sprint(order(3, round))] = true
	}
	for _, want := range []string{"[0 1 2]", "[0 2 1]", "[1 0 2]", "[1 2 0]", "[2 0 1]", "[2 1 0]"} {
		if !seen[want] {
			t.Errorf("the order %s never came up: %v", want, seen)
		}
	}
}

func TestMiddle(t *testing.T) {
	for want, times := range map[time.Duration][]time.Duration{5: {9, 5, 1}, 4: {9, 5, 3, 1}} {
		if got := middleOf(times); got != want {
			t.Errorf("the middle of %v is %v, want %v", times, got, want)
		}
	}
}

func TestMean(t *testing.T) {
	if got := meanOf([]time.Duration{9, 5, 1, 1}); got != 4 {
		t.Errorf("the mean is %v, want 4ns", got)
	}
}
