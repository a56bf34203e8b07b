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

// side is one of several sides measured in turns: it does its work once and returns the time per unit.
type side func() (time.Duration, error)

// medians returns the median times of sides that work in turns.
func medians(repeats int, sides ...side) ([]time.Duration, error) {
	return inTurns(repeats, middleOf, sides...)
}

// means does the same with means, for few long rounds. Their times form two clusters, depending on the machine's other load, and the median
// of six would depend on which cluster is larger.
func means(repeats int, sides ...side) ([]time.Duration, error) {
	return inTurns(repeats, meanOf, sides...)
}

// inTurns lets all sides work in turns, so that the machine's other load affects all sides equally, and aggregates the times of each with
// sum. The order changes from round to round, because a side may be faster after another side than after itself. The garbage of one side is
// collected before the next one starts, and during the work the collector runs as usual.
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

// order returns the order of the sides in a round: forwards and backwards, each time from another side. With three sides, six rounds have
// each order once.
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

// cpuTime returns the CPU time of the program, including garbage collection.
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
