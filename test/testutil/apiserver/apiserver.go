// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver starts a real API server for one test, or one that the tests of a package share.
package apiserver

import (
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Start starts the API server of an environment until the test ends, and returns a client of an administrator. Its configuration is env.Config.
// A test without the programs fails: one that skipped would look like one that passed.
func Start(t testing.TB, env *envtest.Environment) client.Client {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal(errNoPrograms)
	}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	admin, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}
