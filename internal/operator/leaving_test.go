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
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/webhook"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/ports"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// component leads connections to one replica, as the rules of a Service do: a new one to who is ready, and one that exists to where it is.
type component struct {
	net.Listener
	replica atomic.Pointer[string]
}

func serve() *component {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	s := &component{Listener: listener}
	DeferCleanup(func() { _ = s.Close() })
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

func (s *component) lead(caller net.Conn) {
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

// rolling is one replica after the other behind a component.
type rolling struct {
	ctx         context.Context
	config      *rest.Config
	certificate tls.Certificate
	component   *component
	end         func()
}

// certify makes the certificate of all replicas and returns its authority.
func (r *rolling) certify(host string) []byte {
	GinkgoHelper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	Expect(err).NotTo(HaveOccurred())
	r.certificate, err = tls.X509KeyPair(certificate, key)
	Expect(err).NotTo(HaveOccurred())
	return certificate
}

// next starts a replica, leads the component to it, and ends the one before.
func (r *rolling) next(linger time.Duration) {
	GinkgoHelper()
	port, err := ports.Free(nil)
	Expect(err).NotTo(HaveOccurred())
	address := fmt.Sprintf("127.0.0.1:%d", port)
	own, err := ctrl.NewManager(r.config, ctrl.Options{
		Scheme: NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhookserver.NewServer(webhookserver.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &r.certificate, nil }
		}}}),
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	Expect(webhook.SetupWithManager(own, webhook.Options{Conversion: true, Ending: ctx.Done()})).To(Succeed())
	served, done := make(chan struct{}), make(chan struct{})
	close(served)
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect((&front{Manager: own, served: served, linger: linger}).runBefore(ctx, newPart())).To(Succeed())
	}()
	Eventually(r.ctx, func() error { return own.GetWebhookServer().StartedChecker()(nil) }).Should(Succeed(), "the replica answers")
	r.component.replica.Store(&address)
	if r.end != nil {
		r.end()
	}
	r.end = func() { cancel(); <-done }
}

// readsPerSecond is enough for many reads while a replica ends, and leaves the processors to other tests.
const readsPerSecond = 200

var _ = Describe("One replica after the other that is replaced", func() {
	It("fails no read that needs a conversion", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		config := launch(filepath.Join("..", "..", "config", "crd", "bases"))
		paced := rest.CopyConfig(config)
		paced.QPS, paced.Burst = readsPerSecond, 8
		c, err := client.New(paced, client.Options{Scheme: NewScheme()})
		Expect(err).NotTo(HaveOccurred())
		const linger = 3 * time.Second // shorter than in production
		r := &rolling{ctx: ctx, config: config, component: serve()}
		authority := r.certify("replicas.default.svc")
		r.next(linger)
		DeferCleanup(func() { r.end() })
		Expect(c.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "replicas"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
		})).To(Succeed())
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(c.Get(ctx, client.ObjectKey{Name: convert.Definitions["DynamoGraphDeployment"]}, crd)).To(Succeed())
		before := crd.DeepCopy()
		crd.Spec.Conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{CABundle: authority, Service: &apiextensionsv1.ServiceReference{
			Namespace: "default", Name: "replicas", Path: ptr.To(convert.Path), Port: ptr.To(int32(r.component.Addr().(*net.TCPAddr).Port)),
		}}
		Expect(c.Patch(ctx, crd, client.MergeFrom(before))).To(Succeed())
		graph := &nvidiav1alpha1.DynamoGraphDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"},
			Spec:       nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*nvidiav1alpha1.ServiceSpec{"Worker": graphs.Worker(1, 1, 1, "")}},
		}
		Expect(c.Create(ctx, graph)).To(Succeed())

		stop, failed := make(chan struct{}), sync.Map{}
		var readers sync.WaitGroup
		var reads atomic.Int64
		for range 8 {
			readers.Go(func() {
				for ctx.Err() == nil {
					select {
					case <-stop:
						return
					default:
					}
					if err := c.Get(ctx, client.ObjectKeyFromObject(graph), &nvidiav1alpha1.DynamoGraphDeployment{}); err != nil {
						failed.Store(fmt.Sprint(reads.Load(), ": ", err), true)
					}
					reads.Add(1)
				}
			})
		}
		for range 4 {
			before := reads.Load()
			r.next(linger)
			Eventually(ctx, reads.Load).Should(BeNumerically(">", before+readsPerSecond), "reads during and after a replacement")
		}
		close(stop)
		readers.Wait()
		AddReportEntry(fmt.Sprintf("%d reads", reads.Load()), ReportEntryVisibilityFailureOrVerbose)
		var failures []any
		failed.Range(func(failure, _ any) bool {
			failures = append(failures, failure)
			return true
		})
		Expect(failures).To(BeEmpty())
	})
})
