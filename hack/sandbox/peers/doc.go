// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers runs the real KAI Scheduler, Grove, LeaderWorkerSet, Kueue and Karpenter as plain processes of a sandbox, for the flags
// --provider and --with of kubectl trellis sandbox up, and for the tests in hack/peers, hack/kueue and hack/karpenter.
//
// Each peer has the rights and the webhooks of its own chart, which helm renders; Kueue is installed from its kustomization. Karpenter
// has all rights, and its KWOK provider, whose nodes the sandbox simulates. LeaderWorkerSet, Kueue and Karpenter are Go modules, which
// this package builds. The sources and programs of the others must be on this machine, in the folders of two environment variables:
//
//	PEERS_SRC   kai/ and grove/: their sources, for charts and custom resource definitions; Clone clones the pinned commits without it
//	PEERS_BIN   their programs: kai-scheduler, kai-binder, kai-podgrouper, kai-podgroupcontroller, kai-queuecontroller, grove-operator
//
// Some parts do not run: KAI's operator, admission and node scale adjuster, the webhook of its queues, Grove's authorizer,
// and Kueue's visibility API.
//
// All programs listen on the loopback interface, except the webhook of KAI's podgroupcontroller, which has no flag for its address: it
// listens on port 9443 of all interfaces. All ports are fixed, so only one sandbox with a given peer can run at a time.
package peers

// lwsModule is the Go module of LeaderWorkerSet.
const lwsModule = "sigs.k8s.io/lws@v0.9.0"
