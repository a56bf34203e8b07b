// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout is kubectl trellis rollout: it shows the generations of a graph's workers, and controls the
// update from one to the next.
//
//	llm in team-a is being updated from generation 0123abcd to 89ef4567
//
//	COMPONENT  GENERATION  REPLICAS  AVAILABLE
//	decode     0123abcd           2          2
//	           89ef4567           2          1
//	prefill    0123abcd           1          1
//	           89ef4567           1          1
//
// Read reads from a cluster, Build and Generations make reports (pure), and Text renders them. Pausing, resuming and aborting write
// annotations of the deployment, on which the operator acts; a restart is requested in its spec.
package rollout
