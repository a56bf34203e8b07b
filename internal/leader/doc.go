// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader is the leader election of the operator, with a fence that its writes pass.
//
// A process that is stopped does not notice that its lease expires. When it runs again, another replica may lead, and the elector of
// client-go retries until its renew deadline before it ends. A [Fence] is open from a renewal until the lease expires, counted from when
// the request was sent. Writes pass an open fence, wait at an expired one until the lease is renewed, and fail once it is closed. [Lock]
// opens the fence. It closes the fence when the lease is released, and when a read of the lease names another holder; then the process
// ends. Only requests that were sent before can still arrive.
//
// Example: a leader sends a renewal and is stopped for 20 seconds; its lease lasts 15. When it runs again, the fence is expired, so its
// writes wait. Its elector reads that another replica holds the lease: the writes fail, and [Manager] ends.
//
// The cost is one lock per write.
package leader
