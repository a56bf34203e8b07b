// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers proves on a real API server that the definitions of KAI Scheduler, Grove and LeaderWorkerSet accept what Trellis renders,
// keep all of it, and that their status reads back in our words. Their operators do not run: status is written by hand, and their admission
// webhooks are played (see providertest). Trellis' own operator does, for the deployments of one namespace; what happens there goes
// through all of it.
//
// There is one API server. The first process starts it, the webhooks and the operator; the specs of all processes use them. Each spec has
// a deployment, a ClusterTopology and nodes of a name of its own (see world). Specs that switch an API of a peer off are Serial.
//
// The definitions are those derived from the peers' own (see package definitions). With TRELLIS_PEER_DEFINITIONS set to a folder that has the
// real ones, they are these.
package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const missingAssets = `KUBEBUILDER_ASSETS is not set: these tests need the directory that holds kube-apiserver and etcd.
Let the sandbox build and print it (the first build takes minutes), then run the tests again:

    export KUBEBUILDER_ASSETS=$(go run ./cmd/kubectl-trellis sandbox binaries)
`

const namespace = "default"

// Labels of specs: whose API they are about.
var (
	labelGrove = suite.Grove
	labelKAI   = suite.KAI
	labelLWS   = suite.LWS
)

var (
	restConfig *rest.Config

	client *dynamic.DynamicClient
	// typed is the operator's client, without a cache.
	typed ctrlclient.Client
	// groves are the PodCliqueSets of three releases by shape, each served in a group of its own so that all are there at once.
	groves map[grove.Shape]*apiextensionsv1.CustomResourceDefinition
	// resources by kind, the newest of Grove's.
	resources map[string]schema.GroupVersionResource
)

func TestPeers(t *testing.T) { suite.Run(t, "Peers", suite.Default) }

var _ = SynchronizedBeforeSuite(start, connect)

var _ = ReportAfterSuite("The rights that the operator uses", rights.Of("peers").Check)

// start brings the API server, the webhooks and the operator up, for all processes, and returns the kubeconfig of an administrator.
func start(ctx SpecContext) []byte {
	Expect(os.Getenv("KUBEBUILDER_ASSETS")).NotTo(BeEmpty(), missingAssets)
	apis, err := readAPIs()
	Expect(err).NotTo(HaveOccurred(), "reading the definitions")
	env := &envtest.Environment{WebhookInstallOptions: registered()}
	By("starting the API server")
	_, err = apiserver.Launch(env)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if err := env.Stop(); err != nil {
			AddReportEntry("stopping the API server", err.Error())
		}
	})
	server := conversion.Serve()
	DeferCleanup(server.Close)
	By("installing the definitions")
	Expect(server.Install(env.Config, filepath.Join("..", "..", "..", "config", "crd", "bases"), apis.crds...)).To(Succeed())
	hooks, end := context.WithCancel(context.Background())
	DeferCleanup(end)
	serveWebhooks(hooks, env.WebhookInstallOptions)

	By("waiting until they are served")
	config := clientConfig(env.KubeConfig)
	untilServed(ctx, dynamic.NewForConfigOrDie(config), apis.crds)
	operate(ctx, config)
	return env.KubeConfig
}

// connect sets what the specs of a process use.
func connect(kubeconfig []byte) {
	apis, err := readAPIs()
	Expect(err).NotTo(HaveOccurred(), "reading the definitions")
	groves, resources = apis.groves, apis.resources
	restConfig = clientConfig(kubeconfig)
	client = dynamic.NewForConfigOrDie(restConfig)
	typed = newClient(restConfig)
}

func clientConfig(kubeconfig []byte) *rest.Config {
	GinkgoHelper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config
}

func newClient(config *rest.Config) ctrlclient.Client {
	GinkgoHelper()
	c, err := ctrlclient.New(config, ctrlclient.Options{Scheme: operator.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// untilServed returns when the API server answers for all definitions: it says that one is established a moment before it serves it.
func untilServed(ctx context.Context, client dynamic.Interface, crds []*apiextensionsv1.CustomResourceDefinition) {
	GinkgoHelper()
	for _, crd := range crds {
		resource := schema.GroupVersionResource{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural}
		Eventually(ctx, func() error {
			_, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
			return err
		}).Should(Succeed(), fmt.Sprintf("waiting until %s is served", crd.Name))
	}
}
