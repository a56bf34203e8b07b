// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package karpenter tests docs/autoscaling.md on the real Karpenter with its KWOK provider, alongside a sandbox, alone and behind the quota
// of the real Kueue: make test-karpenter. hack/sandbox/peers builds both from their Go modules, into the user's cache. The package has
// tests only.
package karpenter
