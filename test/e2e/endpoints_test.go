// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// What the operator serves speaks nothing older than TLS 1.3.
func TestServesNoOldTLS(t *testing.T) {
	tier.All(t)
	t.Parallel()
	for name, address := range map[string]string{
		"metrics":  shared.cluster.ManagerMetrics(sandbox.DefaultManager),
		"webhooks": shared.cluster.ManagerWebhooks(sandbox.DefaultManager),
	} {
		for version, speaks := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
			dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}} //nolint:gosec // the version is what is asked about
			connection, err := dialer.DialContext(t.Context(), "tcp", address)
			if (err == nil) != speaks {
				t.Errorf("%s with %s: %v", name, tls.VersionName(version), err)
			}
			if err == nil {
				_ = connection.Close()
			}
		}
	}
}

// Without a login nothing is served but a word on health, and what the API server calls, which only answers what it is sent.
func TestNothingToReadWithoutLogin(t *testing.T) {
	tier.All(t)
	t.Parallel()
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // any certificate will do
	t.Cleanup(insecure.CloseIdleConnections)
	metrics, webhooks := "https://"+shared.cluster.ManagerMetrics(sandbox.DefaultManager), "https://"+shared.cluster.ManagerWebhooks(sandbox.DefaultManager)
	probes := "http://" + shared.cluster.ManagerProbes(sandbox.DefaultManager)
	for url, want := range map[string]int{
		metrics + "/metrics": http.StatusUnauthorized, metrics + "/": http.StatusNotFound, metrics + "/debug/pprof/": http.StatusNotFound,
		webhooks + "/": http.StatusNotFound, webhooks + "/metrics": http.StatusNotFound, webhooks + "/debug/pprof/": http.StatusNotFound, webhooks + "/convert": http.StatusBadRequest,
		probes + "/": http.StatusNotFound, probes + "/metrics": http.StatusNotFound, probes + "/debug/pprof/": http.StatusNotFound,
		probes + "/healthz": http.StatusOK, probes + "/readyz": http.StatusOK,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := insecure.Do(request)
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != want {
			t.Errorf("%s answers %d, want %d: %v", url, response.StatusCode, want, err)
		}
		if want == http.StatusOK && strings.TrimSpace(string(text)) != "ok" {
			t.Errorf("%s says %q", url, text)
		}
	}
}
