// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan is kubectl trellis plan: it shows where deployments would be placed, without creating anything.
//
// [options.gather] collects a world and the deployments to plan from files and, with --cluster, from a cluster. [Execute] plans these
// deployments with package whatif, which uses the operator's own code. [Plans] is the result, as JSON and as text.
package plan
