// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package input tries values on every leaf of the definitions of config/crd, on a real API server with the operator's admission and conversion.
// Leaves and values are made from the schemas, so a new field is tried without a line here.
//
//	spec.services{}.extraPodSpec.volumes[].csi.driver   a leaf: {} is a key of a map, [] an item of a list
//
// Of each leaf there is an object with all that is above the leaf and without it. Values that the schema takes, values at and beyond its
// bounds, and values of other types are set one after the other, and in the end the leaf is unset. What must hold is in check_test.go.
//
// go test tries a sample, by the seed of Ginkgo, which is printed: -ginkgo.seed or TRELLIS_INPUT_SEED tries that sample again. TRELLIS_INPUT=all
// tries everything (make test-input), and TRELLIS_INPUT=PATH the leaves whose path has that text. What fails is written to testdata/corpus, which is
// tried each time.
package input

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/podlimit"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/webhook"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const root = "../.."

func TestInput(t *testing.T) { suite.Run(t, "Input", suite.Default) }

// api is the API server, asked by an administrator in raw JSON.
var api struct {
	url  string
	http *http.Client
}

// What the first process runs for all of them.
var (
	env           *envtest.Environment
	server        *conversion.Server
	stopAdmission func()
)

var _ = SynchronizedBeforeSuite(func(ctx SpecContext) []byte {
	By("starting an API server with the definitions, the conversion and the admission of Trellis")
	env = &envtest.Environment{WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join(root, "config", "webhook", "manifests.yaml")}}}
	config, err := apiserver.Launch(env)
	Expect(err).NotTo(HaveOccurred())
	server = conversion.Serve()
	Expect(server.Install(config, filepath.Join(root, "config", "crd", "bases"))).To(Succeed())
	admit(ctx, config, &env.WebhookInstallOptions)
	connect(env.KubeConfig)
	createTopologies(ctx)
	return env.KubeConfig
}, func(_ SpecContext, kubeconfig []byte) { connect(kubeconfig) }, NodeTimeout(suite.Timeout()))

var _ = SynchronizedAfterSuite(func() {}, func() {
	if stopAdmission != nil {
		stopAdmission()
	}
	if server != nil {
		server.Close()
	}
	if env != nil {
		Expect(env.Stop()).To(Succeed())
	}
})

func connect(kubeconfig []byte) {
	config, err := apiserver.Connect(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	api.url = strings.TrimSuffix(config.Host, "/")
	api.http, err = rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
}

// admit serves the operator's webhooks until stopAdmission, and returns when they accept connections.
func admit(ctx context.Context, config *rest.Config, at *envtest.WebhookInstallOptions) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: operator.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		WebhookServer: webhookserver.NewServer(webhookserver.Options{Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir}),
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(webhook.SetupWithManager(mgr, webhook.Options{
		Admission: true, MaxPods: podlimit.Default, Warnings: render.LaunchWarnings,
		NotActedOn: func(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly) []render.Ignored {
			return render.NotActedOn(dgd, alpha, specs.Auto)
		},
	})).To(Succeed())
	running, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	stopAdmission = func() { cancel(); <-stopped }
	go func() {
		defer GinkgoRecover()
		defer close(stopped)
		Expect(mgr.Start(running)).To(Succeed())
	}()
	patiently(ctx, config)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(at.LocalServingCAData)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	Eventually(ctx, func() error {
		connection, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", at.LocalServingHost, at.LocalServingPort))
		if err != nil {
			return err
		}
		return connection.Close()
	}).Should(Succeed(), "the webhooks accept connections")
}

// patiently gives the webhooks the longest time that an API server takes: how fast the machine is decides nothing.
func patiently(ctx context.Context, config *rest.Config) {
	admin, err := client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	mutating, validating := &admissionv1.MutatingWebhookConfigurationList{}, &admissionv1.ValidatingWebhookConfigurationList{}
	Expect(admin.List(ctx, mutating)).To(Succeed())
	Expect(admin.List(ctx, validating)).To(Succeed())
	for i := range mutating.Items {
		for j := range mutating.Items[i].Webhooks {
			mutating.Items[i].Webhooks[j].TimeoutSeconds = ptr.To[int32](30)
		}
		Expect(admin.Update(ctx, &mutating.Items[i])).To(Succeed())
	}
	for i := range validating.Items {
		for j := range validating.Items[i].Webhooks {
			validating.Items[i].Webhooks[j].TimeoutSeconds = ptr.To[int32](30)
		}
		Expect(admin.Update(ctx, &validating.Items[i])).To(Succeed())
	}
}

// createTopologies creates those that deployments name.
func createTopologies(ctx context.Context) {
	for _, k := range kinds() {
		if k.definition.Spec.Names.Kind != "ClusterTopology" {
			continue
		}
		for _, name := range []string{"a", "x"} {
			object := tree(bases[k.String()])
			object["metadata"] = map[string]any{"name": name}
			Eventually(ctx, func() string {
				a := k.create(ctx, object)
				if a.ok() || a.code == http.StatusConflict { // another answer was lost
					return ""
				}
				return fmt.Sprintf("%d %s", a.code, a.body)
			}).Should(BeEmpty(), "ClusterTopology %s is created", name)
		}
	}
}
