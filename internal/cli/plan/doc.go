// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan is kubectl trellis plan: it shows where deployments would be placed, without creating anything.
//
// [options.gather] collects a world and the deployments to plan from files and, with --cluster, from a cluster. [Execute] plans them with
// package whatif, which makes the operator's own calls. [Plans] is the result, as JSON and as text.
package plan
