// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade installs earlier commits of the operator on a sandbox, lets the present one take over, goes back, and takes over again,
// while deployments run, wait, scale and lose pods. No pod is deleted that the operator of one version would not have deleted.
//
// Half way through a rollout both versions run. The API server then gets the answers of its webhooks from both in turn, also those that
// convert objects: what is written in one version of the API stays as it was written, whichever version of the operator converts it.
//
// It is run by make test-upgrade, which needs the history of the repository.
package upgrade
