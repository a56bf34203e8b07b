// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader runs the leader election of the operator, with a fence that the operator's writes must pass.
//
// While a process is paused, it does not notice that its lease expires. When it continues, another replica may be the leader, but the
// elector of client-go still retries until its renew deadline. A [Fence] is open from a renewal until the lease expires, measured from the
// time at which the renewal was sent. Writes pass an open fence, wait at an expired fence until the lease is renewed, and fail at a closed
// fence. [Lock] opens the fence. It closes the fence when the lease is released, or when a read of the lease shows another holder; in the
// second case, the process ends. After that, only requests that were sent earlier can still arrive.
//
// Example: a leader with a lease of 15 seconds sends a renewal and is paused for 20 seconds. When it continues, the fence is expired, so
// its writes wait. Its elector reads that another replica holds the lease. The writes then fail, and [Manager] ends.
//
// The fence costs one lock operation per write.
package leader
