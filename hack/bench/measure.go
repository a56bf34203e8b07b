// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"slices"
	"time"
)

// side is one of those that are measured in turns: it does its work once and says how long each unit of it took.
type side func() (time.Duration, error)

// medians lets all sides work in turns, so that whatever else the machine does hits all of them alike, and returns the median of each.
// Garbage that one side leaves is collected before the next one starts, and during the work the collector runs as usual.
func medians(repeats int, sides ...side) ([]time.Duration, error) {
	times := make([][]time.Duration, len(sides))
	for range repeats {
		for i, work := range sides {
			runtime.GC()
			took, err := work()
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
		}
	}
	out := make([]time.Duration, 0, len(sides))
	for _, t := range times {
		slices.Sort(t)
		out = append(out, t[len(t)/2])
	}
	return out, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func middleOf(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}
