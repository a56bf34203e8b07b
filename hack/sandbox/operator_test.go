// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// asManager makes the test binary be the operator's manager instead of running tests.
const asManager = "TRELLIS_TEST_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(asManager) == "" {
		os.Exit(m.Run())
	}
	if err := testManager(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// testManager is an operator in small: certificates by cert-controller, one webhook, the flags of the real manager.
func testManager(ctx context.Context) error {
	var port int
	var certDir, metrics, health string
	flag.IntVar(&port, "webhook-port", 0, "")
	flag.StringVar(&certDir, "webhook-cert-dir", "", "")
	flag.StringVar(&metrics, "metrics-bind-address", "", "")
	flag.StringVar(&health, "health-probe-bind-address", "", "")
	elect := flag.Bool("leader-elect", false, "")
	delay := flag.Duration("shutdown-delay", time.Second, "")
	fromManifest := flag.Bool("from-manifest", false, "")
	flag.Parse() // --kubeconfig is controller-runtime's
	if *elect || *delay != 0 || !*fromManifest || os.Getenv("PLAIN") != "from-manifest" {
		return fmt.Errorf("unexpected arguments %q or variable PLAIN=%q", os.Args, os.Getenv("PLAIN"))
	}
	ctrl.SetLogger(zap.New())
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: metrics}, HealthProbeBindAddress: health,
		WebhookServer: webhook.NewServer(webhook.Options{Port: port, CertDir: certDir}),
	})
	if err != nil {
		return err
	}
	certified, registered := make(chan struct{}), make(chan struct{})
	if err := rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey: types.NamespacedName{Namespace: os.Getenv("POD_NAMESPACE"), Name: "test-webhook-cert"},
		CertDir:   certDir, CAName: "test", CAOrganization: "test", DNSName: "test-webhook." + os.Getenv("POD_NAMESPACE") + ".svc",
		IsReady: certified, RequireLeaderElection: false,
		Webhooks: []rotator.WebhookInfo{{Name: "test-webhook", Type: rotator.Validating}},
	}); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhook", serves(mgr, registered)); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	go func() {
		<-certified
		mgr.GetWebhookServer().Register("/refuse", &admission.Webhook{Handler: admission.HandlerFunc(
			func(context.Context, admission.Request) admission.Response {
				return admission.Denied("refused by the test operator")
			})})
		close(registered)
	}()
	return mgr.Start(ctx)
}

// serves is ready when the webhook is registered and its server listens: the manager starts the server after the registration, in its own time.
func serves(mgr ctrl.Manager, registered <-chan struct{}) healthz.Checker {
	return func(r *http.Request) error {
		select {
		case <-registered:
			return mgr.GetWebhookServer().StartedChecker()(r)
		default:
			return errors.New("no certificates yet")
		}
	}
}

// operatorUp starts a small sandbox with the test operator.
func operatorUp(t *testing.T) *Sandbox {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Abs("testdata/operator")
	if err != nil {
		t.Fatal(err)
	}
	return startSandbox(t, Options{
		Name: "operator", Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1}, Operator: true,
		Manifests: manifests, ManagerBinary: exe, Manager: ManagerOptions{Env: []string{asManager + "=1"}},
	})
}

func TestOperator(t *testing.T) {
	s := operatorUp(t)
	ctx := t.Context()
	client, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	refused := func() error {
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"refuse": "yes"}},
		}, metav1.CreateOptions{})
		return err
	}
	if err := refused(); !apierrors.IsForbidden(err) {
		t.Fatalf("the webhook should have refused over TLS, got %v", err)
	}
	if st := s.Status(ctx); !st.Running || len(st.Components) != len(Components)+2 {
		t.Errorf("status %+v, want everything running with manager and secret-mount", st)
	}

	t.Run("rights of the ServiceAccount only", func(t *testing.T) { testRights(t, s) })
	t.Run("kill and start again", func(t *testing.T) {
		if err := s.KillManager(ctx, DefaultManager); err != nil {
			t.Fatal(err)
		}
		if err := refused(); err == nil || apierrors.IsForbidden(err) {
			t.Errorf("with the manager dead: %v, want a failed call", err)
		}
		if err := s.StartManager(ctx, ManagerOptions{Env: []string{"EXTRA=1"}}); err != nil {
			t.Fatal(err)
		}
		if err := refused(); !apierrors.IsForbidden(err) {
			t.Errorf("after the restart: %v, want a refusal", err)
		}
	})

	t.Run("a bad flag is explained", func(t *testing.T) {
		if err := s.StopManager(ctx, DefaultManager); err != nil {
			t.Fatal(err)
		}
		err := s.StartManager(ctx, ManagerOptions{Args: []string{"--leader-elect=true"}})
		mustContain(t, err, "it has ended", s.LogFile(DefaultManager), "unexpected arguments")
	})
}

// testRights: what the manifests do not grant is refused.
func testRights(t *testing.T, s *Sandbox) {
	config, err := clientcmd.BuildConfigFromFlags("", s.path(managerKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mustClient(t, config).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing nodes as the manager: %v, want Forbidden", err)
	}
}
