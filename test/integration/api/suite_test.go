// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api proves on a real API server what the definitions in config/crd alone accept, refuse, keep and print. No
// operator and no webhook runs here: these are the rules that hold when both are down.
//
// Cases are written as a small base object and a merge patch, so that each shows only what it is about. A refusal is named
// by the words and the path that its user sees.
package api

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	controllerclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var (
	basesDir  = filepath.Join("..", "..", "..", "config", "crd", "bases")
	sharedDir = filepath.Join("..", "..", "..", "..", "shared")

	deployments     = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeployments"}
	betaDeployments = deployments.GroupResource().WithVersion("v1beta1")
	topologies      = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "clustertopologies"}
	adapters        = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeploymentscalingadapters"}
	groups          = schema.GroupVersionResource{Group: "trellis.dev", Version: "v1alpha1", Resource: "scalinggroups"}
	metadatas       = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamoworkermetadatas"}
	definitions     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

func TestAPI(t *testing.T) { suite.Run(t, "Definitions", suite.Default) }

// What the first process runs for all of them.
var (
	env    *envtest.Environment
	server *conversion.Server
)

// What every process has.
var (
	config *rest.Config
	client *dynamic.DynamicClient
	admin  controllerclient.Client
)

var _ = SynchronizedBeforeSuite(func() []byte {
	By("starting an API server with the definitions of config/crd")
	// The definitions install only if the API server finds every rule within its cost budget.
	env = &envtest.Environment{}
	started, err := apiserver.Launch(env)
	Expect(err).NotTo(HaveOccurred())
	server = conversion.Serve()
	Expect(server.Install(started, basesDir)).To(Succeed())
	return env.KubeConfig
}, func(ctx SpecContext, kubeconfig []byte) {
	var err error
	config, err = apiserver.Connect(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.WarningHandler = rest.NoWarnings{}
	client, err = dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	admin, err = controllerclient.New(config, controllerclient.Options{})
	Expect(err).NotTo(HaveOccurred())
	// The API server reports that a definition is established a moment before it serves it.
	for _, kind := range []schema.GroupVersionResource{deployments, betaDeployments, adapters, topologies, groups, metadatas} {
		Eventually(ctx, func(ctx SpecContext) error {
			_, err := client.Resource(kind).List(ctx, metav1.ListOptions{})
			return err
		}).Should(Succeed(), "%s are served", kind.Resource)
	}
}, NodeTimeout(suite.Timeout()))

var _ = SynchronizedAfterSuite(func() {}, func() {
	if server != nil {
		server.Close()
	}
	if env != nil {
		Expect(env.Stop()).To(Succeed())
	}
})

// namespace is the spec's own. Its name is also that of the spec's objects, so that those outside namespaces collide with no other spec's.
var namespace string

var _ = BeforeEach(func() {
	namespace = suite.Namespace(admin)
})
