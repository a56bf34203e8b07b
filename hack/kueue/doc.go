// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kueue checks docs/quotas.md on the real Kueue alongside a sandbox: make test-kueue.
//
// hack/sandbox/peers builds Kueue from its Go module, installs it by its own kustomization, and runs it. There is one sandbox for all
// specs. They are Serial, since some kill Kueue or the operator. Each has nodes, a flavor, a cohort, namespaces and queues of its own.
//
// That pods of a deployment are not bound is asserted at a moment at which all is settled: each Workload has quota and all its pods run,
// or it has none and all its pods have Kueue's gate.
package kueue
