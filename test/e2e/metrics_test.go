// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// Metrics are for who may get /metrics, over HTTPS with a certificate that the Secret's authority verifies, with the rights that are shipped.
func TestMetricsAreForWhoMayReadThem(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "metrics")
	reader, err := shared.cluster.NewMetricsReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "nobody"}}
	w.create(account)
	request := &authenticationv1.TokenRequest{}
	if err := w.c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	address := shared.cluster.ManagerMetrics(sandbox.DefaultManager)
	for name, tc := range map[string]struct{ token, refusal string }{
		"without a token":      {"", "401 Unauthorized"},
		"with a wrong token":   {"wrong", "401 Unauthorized"},
		"without the right":    {request.Status.Token, "403 Forbidden"},
		"with the right to it": {reader.Token, ""},
	} {
		t.Run(name, func(t *testing.T) {
			one := *reader
			one.Token = tc.token
			text, err := one.Read(t.Context(), address)
			switch {
			case tc.refusal != "" && (err == nil || !strings.Contains(err.Error(), tc.refusal)):
				t.Errorf("got %v, want %s", err, tc.refusal)
			case tc.refusal == "" && err != nil:
				t.Error(err)
			case tc.refusal == "" && !strings.Contains(text, "\ntrellis_build_info{"):
				t.Errorf("the metrics are %.200s", text)
			}
		})
	}
	plain, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := http.DefaultClient.Do(plain); err == nil {
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			t.Error("metrics are served over plain HTTP")
		}
	}
}
