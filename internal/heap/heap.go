// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heap bounds what the garbage collector lets a process take beyond what it holds.
//
// Nearly all that the operator holds is what exists in the cluster. By Go's default (GOGC 100) the heap grows by as much again before it is
// collected. Here it grows by as much as it holds while that is little, and by a smaller share the more it is:
//
//	in use    grows by
//	 30 MB    30 MB      as with GOGC 100
//	 40 MB    40 MB
//	100 MB    40 MB
//	400 MB    100 MB     as with GOGC 25
//
// GOMEMLIMIT, which the manifests set to the memory limit of the pod, does not do this: it has an effect near the limit only, and an
// operator uses a small share of it.
package heap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	growth    = 40 << 20
	least     = 25
	most      = 100
	liveBytes = "/gc/heap/live:bytes"
)

// percent is how far the heap may grow until the next collection, in percent of what was in use at the last one: GOGC.
func percent(live uint64) int {
	if live == 0 {
		return most
	}
	return int(math.Round(min(max(growth*100/float64(live), least), most)))
}

// Bound sets GOGC by what is in use, now and after each collection, for as long as the process runs.
func Bound() {
	sample := []metrics.Sample{{Name: liveBytes}}
	metrics.Read(sample)
	debug.SetGCPercent(percent(sample[0].Value.Uint64()))
	// What nothing refers to any more is cleaned up at the next collection. It is of a size of its own: tiny objects are allocated together.
	runtime.AddCleanup(&[64]byte{}, func(struct{}) { Bound() }, struct{}{})
}
