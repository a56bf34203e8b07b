// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers checks the rules of docs/providers.md on the real KAI Scheduler, Grove and LeaderWorkerSet alongside a sandbox: make
// test-peers. Package up below checks that sandbox up --provider starts them.
//
// hack/sandbox/peers runs them; its documentation describes what it needs, and what of them is not run. There is one sandbox for all specs.
// They are Serial: Grove's scheduler knows no pools, so the nodes of a spec are all there are. Their labels, kai, grove and lws, are those
// of the peers they are about.
//
// That pods of a deployment are not bound is asserted by a pass, not by waiting: two other deployments are created, one after the other,
// and placed by the same provider. Every state of the pods until the second is bound is looked at.
package peers
