// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filters compares the planner with the kube-scheduler's own filters, run as plugins of its framework on a snapshot: the filters
// must accept the planner's placement pod by pod, and where the planner refuses, no assignment that the filters accept may exist. The
// plugins are the kube-scheduler's defaults. The package also compares the table of internal/kubescheduler with the linked kube-scheduler.
// It has tests only.
package filters
