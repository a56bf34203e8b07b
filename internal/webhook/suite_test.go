// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net/http"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/ports"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// cluster is a real API server with the definitions and the webhooks that config/ ships, and two replicas of the operator that serve them with
// certificates of their own making.
type cluster struct {
	env    *envtest.Environment
	scheme *runtime.Scheme
	// admin may do everything and collects warnings.
	admin  client.Client
	warned *warnings
	// leader and standby are two replicas of the operator, as far as webhooks go.
	leader, standby *replica
	// dir is where no kubelet mounts the certificate.
	dir string
}

func TestWebhooks(t *testing.T) { suite.Run(t, "Webhooks", suite.Default) }

// shared is the cluster of this process. Each process has one of its own: specs replace the certificate, count calls, and change the definitions and what
// admission is asked about.
var shared *cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	s := &cluster{scheme: testScheme(), dir: GinkgoTB().TempDir()}
	Expect(clientgoscheme.AddToScheme(s.scheme)).To(Succeed())
	Expect(apiextensionsv1.AddToScheme(s.scheme)).To(Succeed())
	s.env = &envtest.Environment{Scheme: s.scheme}
	config, err := apiserver.Launch(s.env)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.env.Stop)
	port, err := ports.Free(nil)
	Expect(err).NotTo(HaveOccurred())
	By("installing config/")
	s.install(ctx, config, port)
	s.startReplicas(ctx, config, port)
	shared = s
}, NodeTimeout(suite.Timeout()))

var (
	_ = AfterSuite(rights.Of("webhook").PassOn)
	_ = ReportAfterSuite("The rights that the webhooks use", rights.Of("webhook").Check)
)

// webhookTimeout in seconds is the longest that an API server takes: how fast the machine is decides nothing.
const webhookTimeout = 30

// install applies the shipped manifests. Three things differ from a cluster: the Service leads to this machine, and to a free port, and webhooks may take
// webhookTimeout.
func (s *cluster) install(ctx context.Context, config *rest.Config, port int) {
	GinkgoHelper()
	crds, err := shippedDefinitions(port)
	Expect(err).NotTo(HaveOccurred())
	// Installed by the environment they would lose their conversion.
	Expect(apiserver.Install(config, crds...)).To(Succeed())
	s.warned = &warnings{}
	listening := rest.CopyConfig(config)
	listening.WarningHandlerWithContext = s.warned
	listening.QPS = -1
	s.admin, err = client.New(listening, client.Options{Scheme: s.scheme})
	Expect(err).NotTo(HaveOccurred())
	mutating, validating, service, secret, err := shipped()
	Expect(err).NotTo(HaveOccurred())
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.Service.Port, mutating.Webhooks[i].TimeoutSeconds = ptr.To(int32(port)), ptr.To[int32](webhookTimeout)
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.Service.Port, validating.Webhooks[i].TimeoutSeconds = ptr.To(int32(port)), ptr.To[int32](webhookTimeout)
	}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}, &service, &secret, &mutating, &validating,
	} {
		Expect(s.admin.Create(ctx, object)).To(Succeed())
	}
}

// startReplicas returns when both replicas are ready. The API server calls the leader, at a port.
func (s *cluster) startReplicas(ctx context.Context, config *rest.Config, port int) {
	GinkgoHelper()
	another, err := ports.Free(nil)
	Expect(err).NotTo(HaveOccurred())
	s.leader, err = newReplica("leader", config, s.scheme, s.dir, port)
	Expect(err).NotTo(HaveOccurred())
	s.standby, err = newReplica("standby", config, s.scheme, s.dir, another)
	Expect(err).NotTo(HaveOccurred())
	s.leader.run()
	Eventually(ctx, s.leader.manager.Elected()).Should(BeClosed(), "the leader leads")
	s.standby.run()
	// No kubelet mounts the certificate here, and no one waits for one.
	for _, r := range []*replica{s.leader, s.standby} {
		Eventually(ctx, r.readiness).Should(Equal(http.StatusOK), "%s is ready", r.ready)
	}
}

// shippedDefinitions are those of config/crd. Their calls lead to a port, as those of the webhooks do.
func shippedDefinitions(port int) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../config/crd")
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, r := range built.Resources() {
		raw, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			return nil, err
		}
		if crd.Spec.Conversion != nil {
			crd.Spec.Conversion.Webhook.ClientConfig.Service.Port = ptr.To(int32(port))
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
