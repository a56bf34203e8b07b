// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filters compares the planner with the kube-scheduler's own filters, as plugins of its framework on a snapshot: what the planner
// places, they let through pod by pod, and where it refuses, no assignment that they let through exists. The plugins are all that the
// kube-scheduler has by default. The table of internal/kubescheduler is compared with it, too. It has tests only.
package filters
