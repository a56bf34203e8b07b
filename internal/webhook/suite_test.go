// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	providergraph "github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
)

var (
	// ctx ends with the suite.
	ctx    context.Context
	cancel context.CancelFunc
	env    *envtest.Environment
	scheme *runtime.Scheme
	// admin may do everything and collects warnings.
	admin  client.Client
	warned *warnings
	// leader and standby are two replicas of the operator, as far as webhooks go.
	leader, standby *replica
)

// TestAPIServer runs the shipped webhook manifests on a real API server, with certificates made by the operator itself.
func TestAPIServer(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS must name a folder with etcd, kube-apiserver and kubectl: make test sets it; " +
			"or build hack/controlplane and link its program under these three names")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "webhooks on a real API server")
}

// scalingUser is who carries the numbers of scaling adapters.
const scalingUser = "system:serviceaccount:trellis-system:trellis"

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	ctx, cancel = context.WithCancel(context.Background())
	scheme = testScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())

	port := freePort()
	env = &envtest.Environment{Scheme: scheme}
	config, err := env.Start()
	Expect(err).NotTo(HaveOccurred())
	// Installed by the environment they would lose their conversion.
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: shippedDefinitions(port)})
	Expect(err).NotTo(HaveOccurred())
	warned = &warnings{}
	listening := rest.CopyConfig(config)
	listening.WarningHandlerWithContext = warned
	listening.QPS = -1
	admin, err = client.New(listening, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	leader, standby = newReplica("leader", config, port), newReplica("standby", config, freePort())
	installWebhooks(leader.port)
	leader.run()
	Eventually(leader.manager.Elected()).Should(BeClosed())
	standby.run()

	// No kubelet mounts the certificate here, and nobody waits for one.
	for _, r := range []*replica{leader, standby} {
		Eventually(func() int { code, _ := probe(r); return code }).Should(Equal(http.StatusOK))
	}
})

var _ = AfterSuite(func() {
	if cancel != nil {
		cancel()
	}
	for _, r := range []*replica{leader, standby} {
		if r != nil && r.stopped != nil {
			Eventually(r.stopped).Should(BeClosed())
		}
	}
	if env != nil {
		Expect(env.Stop()).To(Succeed())
	}
})

// shippedDefinitions are those of config/crd. Their calls lead to a port, as those of the webhooks do.
func shippedDefinitions(port int) []*apiextensionsv1.CustomResourceDefinition {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../config/crd")
	Expect(err).NotTo(HaveOccurred())
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, r := range built.Resources() {
		raw, err := r.MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.UnmarshalStrict(raw, crd)).To(Succeed())
		if crd.Spec.Conversion != nil {
			crd.Spec.Conversion.Webhook.ClientConfig.Service.Port = ptr.To(int32(port))
		}
		crds = append(crds, crd)
	}
	return crds
}

// installWebhooks applies the shipped manifests. Two things differ from a cluster: the Service leads to this machine, and to a free port.
func installWebhooks(port int) {
	mutating, validating, service, secret, err := shipped()
	Expect(err).NotTo(HaveOccurred())
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.Service.Port = ptr.To(int32(port))
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.Service.Port = ptr.To(int32(port))
	}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}, &service, &secret, &mutating, &validating,
	} {
		Expect(admin.Create(ctx, object)).To(Succeed())
	}
}

// replica is one operator process, as far as webhooks go.
type replica struct {
	manager   ctrl.Manager
	port      int
	readiness string
	stopped   chan struct{}
}

func newReplica(name string, config *rest.Config, port int) *replica {
	r, certificate := &replica{port: port}, &Certificate{}
	probes := fmt.Sprintf("127.0.0.1:%d", freePort())
	r.readiness = "http://" + probes + "/readyz"
	var err error
	r.manager, err = ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: probes,
		LeaderElection: true, LeaderElectionID: "trellis", LeaderElectionNamespace: operatorNamespace,
		WebhookServer: webhook.NewServer(webhook.Options{Port: r.port, TLSOpts: []func(*tls.Config){certificate.ServeWith}}),
	})
	Expect(err).NotTo(HaveOccurred())
	ready, err := SetupCertRotation(r.manager, CertOptions{
		Namespace: operatorNamespace, SecretName: certSecret, ServiceName: webhookService, CertDir: GinkgoT().TempDir(), Certificate: certificate,
		MutatingWebhookConfig: mutatingConfigName, ValidatingWebhookConfig: validatingConfigName,
		Definitions: slices.Sorted(maps.Values(convert.Definitions)), controllerName: "cert-rotator-" + name,
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(SetupWithManager(r.manager, Options{
		Admission: true, Conversion: true, CertsReady: ready, MaxPods: 1000, ScalingUsers: []string{scalingUser},
		NotActedOn: func(dgd *nvidiav1beta1.DynamoGraphDeployment) []string { return providergraph.NotActedOn(dgd, "") },
	})).To(Succeed())
	return r
}

// run starts the replica.
func (r *replica) run() {
	r.stopped = make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(r.stopped)
		Expect(r.manager.Start(ctx)).To(Succeed())
	}()
}

func freePort() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(listener.Close()).To(Succeed()) }()
	return listener.Addr().(*net.TCPAddr).Port
}

// topology makes a ClusterTopology zone > block > rack > host.
func topology(name string) *grovev1alpha1.ClusterTopology {
	return &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: grovev1alpha1.ClusterTopologySpec{
		Levels: []grovev1alpha1.TopologyLevel{
			{Domain: "zone", Key: "topology.kubernetes.io/zone"}, {Domain: "block", Key: "example.com/block"},
			{Domain: "rack", Key: "example.com/rack"}, {Domain: "host", Key: "kubernetes.io/hostname"},
		},
	}}
}
