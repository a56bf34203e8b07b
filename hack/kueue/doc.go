// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kueue tests docs/quotas.md on the real Kueue alongside a sandbox: make test-kueue.
//
// hack/sandbox/peers builds Kueue from its Go module, installs it with its own kustomization, and runs it. All specs share one sandbox.
// They are Serial, because some kill Kueue or the operator. Each spec has its own nodes, flavor, cohort, namespaces and queues.
//
// Specs assert that pods of a deployment are not bound in a settled state: each Workload has quota and all its pods run, or it has none and
// all its pods have Kueue's gate.
package kueue
