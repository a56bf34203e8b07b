// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status is kubectl trellis status: it shows the progress of an inference graph. For each component, it shows the ready, wanted and
// updated replicas, their domains, and what they wait for.
//
//	llm in team-a is not ready (pods_not_ready), placed in zone-a
//
//	COMPONENT  READY  UPDATED  WHERE                         WAITING FOR
//	Decode       2/3        3  zone-a/rack-1, zone-a/rack-2  1 replica to start
//	Frontend     1/1        1  zone-a
//
//	PodsHealthy of Decode is False, PodsNotStarting: pod llm-decode-2-0: container main: ImagePullBackOff: image "llm:2" cannot be pulled
//
// Read reads from a cluster, Build makes the report (pure), and Text and Changes render it. Follow repeats this for every change until the
// graph is ready and fully updated.
package status
