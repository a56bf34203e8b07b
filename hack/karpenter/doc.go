// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package karpenter runs the real Karpenter, with its KWOK provider, alongside a sandbox, and checks docs/autoscaling.md on it: make test-karpenter. It is
// built from its Go module, at the version of this package, into the user's cache. It has tests only.
package karpenter
