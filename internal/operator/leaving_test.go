// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/webhook"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// service leads connections to one replica, as the rules of a Service do: a new one to who is ready, and one that exists to where it is.
type service struct {
	net.Listener
	replica atomic.Pointer[string]
}

func serve(t *testing.T) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{Listener: listener}
	t.Cleanup(func() { _ = s.Close() })
	go func() {
		for {
			caller, err := s.Accept()
			if err != nil {
				return
			}
			go s.lead(caller)
		}
	}()
	return s
}

func (s *service) lead(caller net.Conn) {
	defer func() { _ = caller.Close() }()
	replica, err := net.Dial("tcp", *s.replica.Load())
	if err != nil {
		return
	}
	defer func() { _ = replica.Close() }()
	go func() {
		_, _ = io.Copy(replica, caller)
		_ = replica.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(caller, replica)
}

// rolling is one replica after the other behind a service.
type rolling struct {
	t           *testing.T
	config      *rest.Config
	certificate tls.Certificate
	service     *service
	end         func()
}

// certify makes the certificate of all replicas and returns its authority.
func (r *rolling) certify(host string) []byte {
	r.t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.certificate, err = tls.X509KeyPair(certificate, key); err != nil {
		r.t.Fatal(err)
	}
	return certificate
}

// next starts a replica, leads the service to it, and ends the one before.
func (r *rolling) next(linger time.Duration) {
	r.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		r.t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		r.t.Fatal(err)
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		r.t.Fatal(err)
	}
	own, err := ctrl.NewManager(r.config, ctrl.Options{
		Scheme: NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhookserver.NewServer(webhookserver.Options{Host: "127.0.0.1", Port: number, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &r.certificate, nil }
		}}}),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := webhook.SetupWithManager(own, webhook.Options{Conversion: true, Ending: ctx.Done()}); err != nil {
		r.t.Fatal(err)
	}
	served, done := make(chan struct{}), make(chan struct{})
	close(served)
	go func() {
		defer close(done)
		if err := (&front{Manager: own, served: served, linger: linger}).runBefore(ctx, newPart()); err != nil {
			r.t.Error(err)
		}
	}()
	(&bare{t: r.t}).until("the replica answers", time.Minute, func() error { return own.GetWebhookServer().StartedChecker()(nil) })
	r.service.replica.Store(&address)
	if r.end != nil {
		r.end()
	}
	r.end = func() { cancel(); <-done }
}

// readsPerSecond is enough for many reads while a replica ends, and leaves the processors to other tests.
const readsPerSecond = 200

// One replica is down and the other is replaced, again and again: no read that needs a conversion fails.
func TestRollingFailsNoRead(t *testing.T) {
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{}
	config, err := apiserver.Launch(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	config.QPS = -1
	server := conversion.Serve()
	t.Cleanup(server.Close)
	if err := server.Install(config, filepath.Join("..", "..", "config", "crd", "bases")); err != nil {
		t.Fatal(err)
	}
	paced := rest.CopyConfig(config)
	paced.QPS, paced.Burst = readsPerSecond, 8
	c, err := client.New(paced, client.Options{Scheme: NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	const linger = 3 * time.Second // shorter than in production
	r := &rolling{t: t, config: config, service: serve(t)}
	authority := r.certify("replicas.default.svc")
	r.next(linger)
	t.Cleanup(func() { r.end() })
	must := (&bare{t: t}).must
	must(c.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "replicas"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}))
	crd := &apiextensionsv1.CustomResourceDefinition{}
	must(c.Get(t.Context(), client.ObjectKey{Name: convert.Definitions["DynamoGraphDeployment"]}, crd))
	crd.Spec.Conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{CABundle: authority, Service: &apiextensionsv1.ServiceReference{
		Namespace: "default", Name: "replicas", Path: ptr.To(convert.Path), Port: ptr.To(int32(r.service.Addr().(*net.TCPAddr).Port)),
	}}
	must(c.Update(t.Context(), crd))
	graph := &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"},
		Spec:       nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*nvidiav1alpha1.ServiceSpec{"Worker": graphs.Worker(1, 1, 1, "")}},
	}
	must(c.Create(t.Context(), graph))

	stop, failed := make(chan struct{}), sync.Map{}
	var readers sync.WaitGroup
	var reads atomic.Int64
	for range 8 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(graph), &nvidiav1alpha1.DynamoGraphDeployment{}); err != nil {
					failed.Store(fmt.Sprint(reads.Load(), ": ", err), true)
				}
				reads.Add(1)
			}
		})
	}
	for range 4 {
		r.next(linger)
	}
	close(stop)
	readers.Wait()
	t.Logf("%d reads", reads.Load())
	failed.Range(func(failure, _ any) bool {
		t.Errorf("a read failed: %s", failure)
		return true
	})
}
