// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout shows and controls the update of an inference graph: the generations of its workers, and what the user has the update do.
//
//	llm in team-a is being updated from generation 0123abcd to 89ef4567
//
//	COMPONENT  GENERATION  REPLICAS  AVAILABLE
//	decode     0123abcd           2          2
//	           89ef4567           2          1
//	prefill    0123abcd           1          1
//	           89ef4567           1          1
//
// Read takes what it needs from a cluster, Build and Generations make reports (pure), and Text renders them. Pausing, resuming and
// aborting write annotations of the deployment, which the operator follows; a restart is requested in its spec.
package rollout
