// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// next is the name of the second manager of a sandbox.
const next = "next"

var _ = DescribeTable("Two versions of the operator answer in turn while a rollout is half way, and nothing is lost", Serial,
	func(ctx SpecContext, commit string) {
		former, now := earlier(ctx, commit), present()
		w := newWorld(ctx, "turns-"+commit, former, simulated.Shape{Zones: 2, Blocks: 1, Racks: 4, Hosts: 4, GPUs: 8}, "--leader-elect")
		for i := range 4 {
			w.create(ctx, fmt.Sprintf("run-%d", i), graphs.Components{"Worker": graphs.Worker(1, 2, 2, "rack"), "Frontend": graphs.Frontend(1)})
			grows := graphs.Components{"Worker": graphs.Worker(2, 2, 1, "rack"), "Frontend": graphs.Frontend(1)}
			if i%2 == 0 {
				grows["Worker"].ScalingAdapter = &nvidiav1alpha1.ScalingAdapter{Enabled: true}
			}
			w.create(ctx, fmt.Sprintf("grow-%d", i), grows)
		}
		w.settled(ctx)
		turns := newTurns(ctx, w)

		By("the present version starts alongside the earlier one, which leads")
		Expect(w.cluster.AddOperator(ctx, now, turns.port(), sandbox.ManagerOptions{Name: next, Args: []string{"--leader-elect"}})).To(Succeed())
		turns.between(sandbox.DefaultManager, next)
		before := w.bound(ctx, "run-0")
		w.lose(ctx, "run-0-worker-0-1")
		for i, version := range []string{alpha, beta} {
			w.adapt(ctx, version, "grow-0", 3+i)
			w.settled(ctx)
		}
		objects := w.writes(ctx, "first", "run-0", "grow-0")
		kept := w.ofNew(ctx)
		turns.bothConverted()

		By("the earlier version ends, and the present one leads")
		turns.between(next)
		Expect(w.cluster.StopManager(ctx, sandbox.DefaultManager)).To(Succeed())
		objects.same(ctx)
		kept()
		w.settled(ctx)
		Expect(w.lost(before)).To(BeEmpty(), "pods that were deleted by the rollout")
		w.recorded(ctx)
		w.grow(ctx, "run-1", "grow-1")
		objects.same(ctx)

		By("the earlier version starts alongside the present one, which leads and lacks rights that the earlier role does not have")
		former.Keep = []string{keptDefinition}
		Expect(w.cluster.AddOperator(ctx, former, turns.port(), sandbox.ManagerOptions{Args: []string{"--leader-elect"}})).To(Succeed())
		turns.between(sandbox.DefaultManager, next)
		before = w.bound(ctx, "run-2")
		objects.same(ctx)
		more := w.writes(ctx, "second", "run-2", "grow-2")
		w.lose(ctx, "run-2-worker-0-1")
		turns.bothConverted()

		By("the present version ends, and the earlier one leads")
		turns.between(sandbox.DefaultManager)
		Expect(w.cluster.StopManager(ctx, next)).To(Succeed())
		objects.same(ctx)
		more.same(ctx)
		w.adapt(ctx, beta, "grow-2", 3)
		w.settled(ctx)
		Expect(w.lost(before)).To(BeEmpty(), "pods that were deleted on the way back")
		w.grow(ctx, "run-3", "grow-3")
	},
	Entry("v0.2.0", SpecTimeout(3*suite.Timeout()), "aebbfd5b"),
	Entry("the last without GraphPlacements", SpecTimeout(3*suite.Timeout()), "e533abc"),
)

// turns answers the API server's calls of webhooks with the answers of managers, which are asked in turn.
type turns struct {
	w        *world
	listener net.Listener
	managers *http.Client

	mu sync.Mutex
	of []string
	n  int
	// conversions of each manager.
	conversions map[string]int
}

// newTurns serves on a port of this machine, with the certificate of the operator, which the API server trusts, until the spec ends.
func newTurns(ctx SpecContext, w *world) *turns {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	insecure := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a manager on this machine
	t := &turns{
		w: w, listener: listener, conversions: map[string]int{},
		managers: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure, DisableKeepAlives: true}},
	}
	secret := &corev1.Secret{}
	Expect(w.c.Get(ctx, client.ObjectKey{Namespace: "trellis-system", Name: "trellis-webhook-server-cert"}, secret)).To(Succeed())
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	Expect(err).NotTo(HaveOccurred())
	trusted := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}}
	server := &http.Server{Handler: t, TLSConfig: trusted, ReadHeaderTimeout: suite.Patience()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ServeTLS(listener, "", "")
	}()
	DeferCleanup(func() {
		_ = server.Close()
		<-ended
	})
	t.between(sandbox.DefaultManager)
	return t
}

// ServeHTTP implements http.Handler.
func (t *turns) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, kind, answer, err := t.ask(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// ask returns the answer of the manager whose turn it is, and its content type.
func (t *turns) ask(r *http.Request) (status int, kind string, answer []byte, err error) {
	asked, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, "", nil, err
	}
	url := "https://" + t.w.cluster.ManagerWebhooks(t.next(r.URL.Path)) + r.URL.RequestURI()
	request, err := http.NewRequestWithContext(r.Context(), r.Method, url, bytes.NewReader(asked))
	if err != nil {
		return 0, "", nil, err
	}
	request.Header = r.Header.Clone()
	response, err := t.managers.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, response.Header.Get("Content-Type"), answer, err
}

// next is the manager whose turn it is.
func (t *turns) next(path string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	manager := t.of[t.n%len(t.of)]
	if path == convert.Path {
		t.conversions[manager]++
	}
	return manager
}

func (t *turns) port() int { return t.listener.Addr().(*net.TCPAddr).Port }

// between has these managers be asked in turn from now on, and none counted before.
func (t *turns) between(managers ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of = managers
	clear(t.conversions)
}

// bothConverted checks that each manager has converted a part.
func (t *turns) bothConverted() {
	GinkgoHelper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, manager := range t.of {
		Expect(t.conversions[manager]).To(BeNumerically(">", 0), "conversions of %s", manager)
	}
}
