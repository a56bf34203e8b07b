// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver starts a real API server for one test, or one that the tests of a package share.
package apiserver

import (
	"cmp"
	"os"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience is how long a step of starting an API server may take. The machine is busy with the tests of other packages, or with building them: it has
// taken more than the 10 seconds that envtest gives definitions to be served.
const patience = 3 * time.Minute

// Start starts the API server of an environment until the test ends, and returns a client of an administrator. Its configuration is env.Config.
// A test without the programs fails: one that skipped would look like one that passed.
func Start(t testing.TB, env *envtest.Environment) client.Client {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal(errNoPrograms)
	}
	config, err := Launch(env)
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

// Launch starts the API server of an environment and installs its definitions. Limits of time that env does not set allow for a busy machine. The caller stops env.
func Launch(env *envtest.Environment) (*rest.Config, error) {
	env.ControlPlaneStartTimeout = cmp.Or(env.ControlPlaneStartTimeout, patience)
	env.ControlPlaneStopTimeout = cmp.Or(env.ControlPlaneStopTimeout, patience)
	env.CRDInstallOptions.MaxTime = cmp.Or(env.CRDInstallOptions.MaxTime, patience)
	env.WebhookInstallOptions.MaxTime = cmp.Or(env.WebhookInstallOptions.MaxTime, patience)
	return env.Start()
}

// Install installs definitions, and returns when they are served.
func Install(config *rest.Config, definitions ...*apiextensionsv1.CustomResourceDefinition) error {
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: definitions, MaxTime: patience})
	return err
}
