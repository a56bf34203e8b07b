// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver starts a real API server for one test, or for all tests of a package.
package apiserver

import (
	"cmp"
	"fmt"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/test/testutil/patience"
)

// Start starts the API server of an environment until the test ends, and returns a client with administrator rights. Its configuration is
// env.Config. A test without the programs fails, because a skipped test would look like a passed one.
func Start(t testing.TB, env *envtest.Environment) client.Client {
	t.Helper()
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

// Launch starts the API server of an environment and installs its definitions. Each of its steps, and its end, may take patience.Limit
// unless env sets a time: on a busy machine definitions have taken more than envtest's 10 seconds until they were served. The caller stops
// env. A suite passes env.KubeConfig to the processes that call Connect.
func Launch(env *envtest.Environment) (*rest.Config, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errNoPrograms
	}
	env.ControlPlaneStartTimeout = cmp.Or(env.ControlPlaneStartTimeout, patience.Limit())
	env.ControlPlaneStopTimeout = cmp.Or(env.ControlPlaneStopTimeout, patience.Limit())
	env.CRDInstallOptions.MaxTime = cmp.Or(env.CRDInstallOptions.MaxTime, patience.Limit())
	env.WebhookInstallOptions.MaxTime = cmp.Or(env.WebhookInstallOptions.MaxTime, patience.Limit())
	return env.Start()
}

// Connect returns an administrator's configuration for an API server that another process launched, without a client-side rate limit.
func Connect(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the launched API server: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// Install installs definitions, and returns when they are served.
func Install(config *rest.Config, definitions ...*apiextensionsv1.CustomResourceDefinition) error {
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: definitions, MaxTime: patience.Limit()})
	return err
}
