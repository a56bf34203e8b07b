// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers tests the rules of docs/providers.md on the real KAI Scheduler, Grove and LeaderWorkerSet alongside a sandbox: make
// test-peers. Package up below tests that sandbox up --provider starts them.
//
// hack/sandbox/peers runs them; its documentation describes their requirements, and the parts that it does not run. All specs share one
// sandbox. They are Serial: Grove's scheduler has no node pools, so the cluster has only the nodes of the running spec. Their labels kai,
// grove and lws name the peers that they test.
//
// To assert that pods of a deployment are not bound, specs do not wait for a time, but for a pass: two other deployments are created, one
// after the other, and placed by the same provider. Every state of the pods until the second one is bound is checked.
package peers
