// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// side is one of those that are measured in turns: it does its work once and reports how long each unit of it took.
type side func() (time.Duration, error)

// medians are what sides take that work in turns.
func medians(repeats int, sides ...side) ([]time.Duration, error) {
	return inTurns(repeats, middleOf, sides...)
}

// means are the same for rounds that are few and long. Those fall into two heaps, by what else the machine does, and in which of them the
// middle of six lies says little.
func means(repeats int, sides ...side) ([]time.Duration, error) {
	return inTurns(repeats, meanOf, sides...)
}

// inTurns lets all sides work in turns, so that whatever else the machine does hits all of them alike, and sums up the times of each.
// The order changes from round to round, since a side may work faster after one of the others than after itself.
// Garbage that one side leaves is collected before the next one starts, and during the work the collector runs as usual.
func inTurns(repeats int, sum func([]time.Duration) time.Duration, sides ...side) ([]time.Duration, error) {
	times := make([][]time.Duration, len(sides))
	for round := range repeats {
		for _, i := range order(len(sides), round) {
			runtime.GC()
			took, err := sides[i]()
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
		}
	}
	out := make([]time.Duration, 0, len(sides))
	for _, t := range times {
		out = append(out, sum(t))
	}
	return out, nil
}

// order of the sides in a round: forth and back, from another one each time. Of three sides, six rounds have each order once.
func order(sides, round int) []int {
	out := make([]int, sides)
	for i := range out {
		out[i] = (i + round/2) % sides
	}
	if round%2 == 1 {
		slices.Reverse(out)
	}
	return out
}

// cpuTime is what the program has used, the collector included.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("reading the CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func middleOf(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	n := len(times)
	return (times[(n-1)/2] + times[n/2]) / 2
}

func meanOf(times []time.Duration) time.Duration {
	var all time.Duration
	for _, t := range times {
		all += t
	}
	return all / time.Duration(len(times))
}
