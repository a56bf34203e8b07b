// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("The operator's metrics", func() {
	// Metrics are for those who may get /metrics, over HTTPS with a certificate that the Secret's authority verifies, with the rights that are shipped.
	type caller struct {
		token   func(ctx context.Context, reader *sandbox.MetricsReader) string
		refusal string
	}
	DescribeTable("are served to those who may read them", func(ctx SpecContext, one caller) {
		cluster := shared.open(ctx).cluster
		reader, err := cluster.NewMetricsReader(ctx)
		Expect(err).NotTo(HaveOccurred())
		as := *reader
		as.Token = one.token(ctx, reader)
		text, err := as.Read(ctx, cluster.ManagerMetrics(sandbox.DefaultManager))
		if one.refusal != "" {
			Expect(err).To(MatchError(ContainSubstring(one.refusal)))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(ContainSubstring("\ntrellis_build_info{"))
	}, suite.Entries(map[string]caller{
		"without a token":      {func(context.Context, *sandbox.MetricsReader) string { return "" }, "401 Unauthorized"},
		"with a wrong token":   {func(context.Context, *sandbox.MetricsReader) string { return "wrong" }, "401 Unauthorized"},
		"without the right":    {func(ctx context.Context, _ *sandbox.MetricsReader) string { return tokenOfNobody(ctx) }, "403 Forbidden"},
		"with the right to it": {func(_ context.Context, reader *sandbox.MetricsReader) string { return reader.Token }, ""},
	}, SpecTimeout(suite.Timeout())))

	It("are not served over plain HTTP", func(ctx SpecContext) {
		address := shared.open(ctx).cluster.ManagerMetrics(sandbox.DefaultManager)
		plain, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
		Expect(err).NotTo(HaveOccurred())
		if response, err := http.DefaultClient.Do(plain); err == nil {
			defer response.Body.Close()
			Expect(response.StatusCode).NotTo(Equal(http.StatusOK))
		}
	}, SpecTimeout(suite.Timeout()))
})

// tokenOfNobody is the token of an account without any right.
func tokenOfNobody(ctx context.Context) string {
	GinkgoHelper()
	w := newWorld(ctx, "metrics")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "nobody"}}
	w.create(account)
	request := &authenticationv1.TokenRequest{}
	Expect(w.c.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}
