// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package up tests that sandbox up --provider starts the real KAI Scheduler, Grove and LeaderWorkerSet. It is separate from hack/peers,
// whose sandbox uses the same ports.
package up
