// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade installs earlier commits of the operator on a sandbox, upgrades to the present operator, downgrades, and upgrades again,
// while deployments run, wait, scale and lose pods. The switch between versions must not delete any pod.
//
// Half way through a rollout both versions run. The API server then calls the webhooks of both in turn, also those that convert objects.
// Objects are read unchanged in the version of the API in which they were written, whichever version of the operator converts them.
//
// make test-upgrade runs it; it needs the history of the repository.
package upgrade
