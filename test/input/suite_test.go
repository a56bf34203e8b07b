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
// go test tries a sample, by a seed that is printed. TRELLIS_INPUT_SEED tries that sample again, TRELLIS_INPUT=all tries everything (make
// test-input), and TRELLIS_INPUT=PATH the leaves whose path has that text. What fails is written to testdata/corpus, which is tried each time.
package input

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/validation"
	"github.com/trellis-k8s/trellis/internal/webhook"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
)

const root = "../.."

// api is the API server, asked by an administrator in raw JSON.
var api struct {
	url  string
	http *http.Client
}

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run make test, or set it to what bin/kubectl-trellis sandbox binaries prints")
		os.Exit(1)
	}
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server and admission:", err)
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (int, error) {
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	env := &envtest.Environment{WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join(root, "config", "webhook", "manifests.yaml")}}}
	config, err := apiserver.Launch(env)
	if err != nil {
		return 1, err
	}
	defer func() { _ = env.Stop() }()
	server := conversion.Serve()
	defer server.Close()
	if err := server.Install(config, filepath.Join(root, "config", "crd", "bases")); err != nil {
		return 1, err
	}
	config.QPS = -1
	stopped, err := admit(ctx, config, &env.WebhookInstallOptions)
	if err != nil {
		return 1, err
	}
	defer func() { cancel(); <-stopped }()
	api.url = strings.TrimSuffix(config.Host, "/")
	if api.http, err = rest.HTTPClientFor(config); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// admit serves the operator's webhooks until ctx ends.
func admit(ctx context.Context, config *rest.Config, at *envtest.WebhookInstallOptions) (stopped chan struct{}, err error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: operator.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		WebhookServer: webhookserver.NewServer(webhookserver.Options{Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir}),
	})
	if err != nil {
		return nil, err
	}
	err = webhook.SetupWithManager(mgr, webhook.Options{
		Admission: true, MaxPods: validation.DefaultMaxPods, Warnings: graph.LaunchWarnings,
		NotActedOn: func(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly) []string {
			return graph.NotActedOn(dgd, alpha, specs.Auto)
		},
	})
	if err != nil {
		return nil, err
	}
	stopped = make(chan struct{})
	go func() {
		defer close(stopped)
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "admission ended:", err)
		}
	}()
	return stopped, serves(ctx, at)
}

// serves returns when the webhooks accept connections.
func serves(ctx context.Context, at *envtest.WebhookInstallOptions) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(at.LocalServingCAData)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	return until(ctx, func() error {
		connection, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", at.LocalServingHost, at.LocalServingPort))
		if err != nil {
			return err
		}
		return connection.Close()
	})
}
