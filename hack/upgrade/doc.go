// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade installs earlier commits of the operator on a sandbox, upgrades to the present operator, downgrades, and upgrades again,
// while deployments run, wait, scale and lose pods. The switch between versions must not delete any pod.
//
// Half way through a rollout both versions run. The API server then calls the webhooks of both in turn, also those that convert objects.
// What is written in one version of the API is read unchanged in it, whichever version of the operator converts it.
//
// make test-upgrade runs it; it needs the history of the repository.
package upgrade
