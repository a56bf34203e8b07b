// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package up checks that sandbox up --provider starts the real KAI Scheduler, Grove and LeaderWorkerSet. It is apart from the rules in
// hack/peers, whose sandbox has their ports.
package up
