// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers checks the rules of docs/providers.md on the real KAI Scheduler, Grove and LeaderWorkerSet beside a sandbox: make test-peers.
// Package up below checks that sandbox up --provider starts them.
//
// internal/sandbox/peers runs them; its documentation says what it needs, and what of them is not run.
package peers
