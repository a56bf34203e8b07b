// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers runs the real KAI Scheduler, Grove and LeaderWorkerSet as plain processes beside a sandbox, and checks the rules of
// docs/providers.md on them: make test-peers.
//
// Each has the rights and the webhooks of its own chart. It needs what this machine has of them, in two folders:
//
//	PEERS_SRC   kai/ and grove/: their sources, for charts and custom resource definitions
//	PEERS_BIN   their programs: kai-scheduler, kai-binder, kai-podgrouper, kai-podgroupcontroller, kai-queuecontroller, grove-operator
//
// The releases that the expectations were seen on are in Versions. LeaderWorkerSet is a Go module, so it is built here. What is not run:
// KAI's operator, admission and node scale adjuster, the webhook on its queues, and Grove's authorizer.
//
// Everything listens on the loopback interface but the webhook of KAI's podgroupcontroller, which has no flag for it: its port 9443 is on all.
package peers

// Versions of the peers that the expectations were seen on.
var Versions = []string{"KAI Scheduler v0.17.0", "Grove v0.1.0-alpha.11", "LeaderWorkerSet v0.9.0"}

// lwsModule is LeaderWorkerSet's.
const lwsModule = "sigs.k8s.io/lws@v0.9.0"
