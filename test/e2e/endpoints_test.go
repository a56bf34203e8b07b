// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("What the operator serves", func() {
	// What the operator serves speaks nothing older than TLS 1.3.
	It("speaks TLS 1.3 only", func(ctx SpecContext) {
		cluster := shared.open(ctx).cluster
		for name, address := range map[string]string{
			"metrics":  cluster.ManagerMetrics(sandbox.DefaultManager),
			"webhooks": cluster.ManagerWebhooks(sandbox.DefaultManager),
		} {
			for version, speaks := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
				dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}} //nolint:gosec // the version is what is asked about
				connection, err := dialer.DialContext(ctx, "tcp", address)
				if err == nil {
					_ = connection.Close()
				}
				Expect(err == nil).To(Equal(speaks), "%s with %s: %v", name, tls.VersionName(version), err)
			}
		}
	}, SpecTimeout(suite.Timeout()))

	// Without a login nothing is served but a word on health, and what the API server calls, which only answers what it is sent.
	It("shows nothing without a login but its health", func(ctx SpecContext) {
		insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // any certificate will do
		DeferCleanup(insecure.CloseIdleConnections)
		cluster := shared.open(ctx).cluster
		metrics, webhooks := "https://"+cluster.ManagerMetrics(sandbox.DefaultManager), "https://"+cluster.ManagerWebhooks(sandbox.DefaultManager)
		probes := "http://" + cluster.ManagerProbes(sandbox.DefaultManager)
		for url, want := range map[string]int{
			metrics + "/metrics": http.StatusUnauthorized, metrics + "/": http.StatusNotFound, metrics + "/debug/pprof/": http.StatusNotFound,
			webhooks + "/": http.StatusNotFound, webhooks + "/metrics": http.StatusNotFound, webhooks + "/debug/pprof/": http.StatusNotFound, webhooks + "/convert": http.StatusBadRequest,
			probes + "/": http.StatusNotFound, probes + "/metrics": http.StatusNotFound, probes + "/debug/pprof/": http.StatusNotFound,
			probes + "/healthz": http.StatusOK, probes + "/readyz": http.StatusOK,
		} {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			Expect(err).NotTo(HaveOccurred())
			response, err := insecure.Do(request)
			Expect(err).NotTo(HaveOccurred())
			text, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			Expect(err).NotTo(HaveOccurred())
			Expect(response.StatusCode).To(Equal(want), url)
			if want == http.StatusOK {
				Expect(strings.TrimSpace(string(text))).To(Equal("ok"), url)
			}
		}
	}, SpecTimeout(suite.Timeout()))
})
