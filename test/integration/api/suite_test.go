// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api proves on a real API server what the definitions in config/crd alone accept, refuse, keep and print. No
// operator and no webhook runs here: these are the rules that hold when both are down.
//
// Cases are written as a small base object and a merge patch, so that each shows only what it is about. A refusal is named
// by the words and the path that its user sees.
package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

const missingAssets = `KUBEBUILDER_ASSETS is not set: these tests need the directory that holds kube-apiserver and etcd.
Let the sandbox build and print it (the first build takes minutes), then run the tests again:

    export KUBEBUILDER_ASSETS=$(go run ./cmd/kubectl-trellis sandbox binaries)
`

var (
	basesDir  = filepath.Join("..", "..", "..", "config", "crd", "bases")
	sharedDir = filepath.Join("..", "..", "..", "..", "shared")

	deployments = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeployments"}
	topologies  = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "clustertopologies"}
	adapters    = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeploymentscalingadapters"}
	groups      = schema.GroupVersionResource{Group: "trellis.dev", Version: "v1alpha1", Resource: "scalinggroups"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

	config *rest.Config
	client *dynamic.DynamicClient
)

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprint(os.Stderr, missingAssets)
		os.Exit(1)
	}
	os.Exit(runSuite(m))
}

func runSuite(m *testing.M) int {
	// The definitions install only if the API server finds every rule within its cost budget.
	env := &envtest.Environment{}
	started, err := apiserver.Launch(env)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
	}()
	server := conversion.Serve()
	defer server.Close()
	if err := server.Install(started, basesDir); err != nil {
		fmt.Fprintln(os.Stderr, "installing the definitions of config/crd:", err)
		return 1
	}
	config = started
	config.QPS = -1 // a test may ask as often as it likes
	config.WarningHandler = rest.NoWarnings{}
	client = dynamic.NewForConfigOrDie(config)
	if err := waitServed(context.Background(), deployments, adapters, topologies, groups); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Client-side kubectl apply keeps a copy of the object in an annotation, and Helm one of all objects in a Secret. (Reading
// the definitions here, while a test runs, also tells the test cache that results depend on them.)
func TestDefinitionsAreSmall(t *testing.T) {
	const annotationLimit = 256 * 1024
	files, err := filepath.Glob(filepath.Join(basesDir, "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("want every definition in %s, found %v (%v)", basesDir, files, err)
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal(missingAssets)
	}
	for _, file := range files {
		compact := toJSON(t, manifest.Parse(t, readFile(t, file)))
		t.Logf("%s: %d bytes as JSON", filepath.Base(file), len(compact))
		if len(compact) > annotationLimit {
			t.Errorf("%s has %d bytes, more than the %d that annotations may have", file, len(compact), annotationLimit)
		}
	}
}
