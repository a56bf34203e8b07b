// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filters compares the planner with the kube-scheduler's own filters, as plugins of its framework on a snapshot: what the planner
// places, they let through pod by pod, and where it refuses, no assignment that they let through exists. It has tests only.
package filters
