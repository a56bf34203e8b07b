// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout is kubectl trellis rollout: it shows the generations of a graph's workers, and controls the update from one generation to
// the next.
//
//	llm in team-a is being updated from generation 0123abcd to 89ef4567
//
//	COMPONENT  GENERATION  REPLICAS  AVAILABLE
//	decode     0123abcd           2          2
//	           89ef4567           2          1
//	prefill    0123abcd           1          1
//	           89ef4567           1          1
//
// Read reads from a cluster, Build and Generations make reports (pure), and Text renders them. To pause, resume or abort an update, the
// command writes annotations of the deployment, which the operator reads. It requests a restart in the deployment's spec.
package rollout
