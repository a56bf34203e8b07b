// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status is kubectl trellis status: it shows the progress of an inference graph, per component: ready and wanted replicas,
// updated ones, their domains, and what they wait for.
//
//	llm in team-a is not ready (pods_not_ready), 2 of 2 components placed in zone-a
//
//	COMPONENT  READY  UPDATED  WHERE                         WAITING FOR
//	Decode       2/3        3  zone-a/rack-1, zone-a/rack-2  1 replica to start: ImagePullBackOff (llm-decode-2)
//	Frontend     1/1        1  zone-a
//
// Read reads from a cluster, Build makes the report (pure), Text and Changes render it, and Follow repeats that for every change
// until the graph is as wanted.
package status
