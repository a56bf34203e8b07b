// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan answers where deployments would go, without creating anything: kubectl trellis plan.
//
// [options.gather] collects a world and the deployments to plan from files and, with --cluster, from a cluster; [Execute] plans them with
// package whatif, which makes the operator's own calls; [Plans] is the answer, as JSON and as text.
package plan
