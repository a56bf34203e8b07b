// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers runs the real KAI Scheduler, Grove, LeaderWorkerSet, Kueue and Karpenter as plain processes alongside a sandbox: for
// sandbox up
// --provider and --with, and for the tests in hack/peers, hack/kueue and hack/karpenter.
//
// Each has the rights and the webhooks of its own chart, which helm renders; Kueue is installed by its kustomization. Karpenter has all
// rights, and its KWOK provider, whose nodes the sandbox simulates. LeaderWorkerSet, Kueue and Karpenter are Go modules, so they are built
// here. Of the others the sources and the programs have to be on this machine, in the folders that two environment variables name:
//
//	PEERS_SRC   kai/ and grove/: their sources, for charts and custom resource definitions; Clone clones the pinned commits without it
//	PEERS_BIN   their programs: kai-scheduler, kai-binder, kai-podgrouper, kai-podgroupcontroller, kai-queuecontroller, grove-operator
//
// What is not run: KAI's operator, admission and node scale adjuster, the webhook on its queues, Grove's authorizer, and Kueue's
// visibility API.
//
// Everything listens on the loopback interface but the webhook of KAI's podgroupcontroller, which has no flag for it: its port 9443 is on
// all. All ports are fixed, so one sandbox with a peer can run at a time.
package peers

// lwsModule is LeaderWorkerSet's.
const lwsModule = "sigs.k8s.io/lws@v0.9.0"
