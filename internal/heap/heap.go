// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heap limits the growth of the process's heap between garbage collections.
//
// Most of the operator's heap mirrors objects of the cluster. With Go's default (GOGC 100), the heap grows to twice its live size before
// the next collection. With this package, a small heap still grows to twice its live size. The larger the live heap is, the smaller is the
// relative growth:
//
//	in use    grows by
//	 30 MB    30 MB      as with GOGC 100
//	 40 MB    40 MB
//	100 MB    40 MB
//	400 MB    100 MB     as with GOGC 25
//
// GOMEMLIMIT, which the manifests set to the pod's memory limit, is not a substitute: it has an effect only near the limit, and an operator
// uses only a small part of its limit.
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

// percent returns the value of GOGC for a live heap size: the allowed growth of the heap until the next collection, in percent.
func percent(live uint64) int {
	if live == 0 {
		return most
	}
	return int(math.Round(min(max(growth*100/float64(live), least), most)))
}

// Bound sets GOGC according to the live heap, now and after each collection, for the lifetime of the process.
func Bound() {
	sample := []metrics.Sample{{Name: liveBytes}}
	metrics.Read(sample)
	debug.SetGCPercent(percent(sample[0].Value.Uint64()))
	// The cleanup of an unreachable object runs after the next collection. The object has 64 bytes, because tiny objects share one
	// allocation.
	runtime.AddCleanup(&[64]byte{}, func(struct{}) { Bound() }, struct{}{})
}
