// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// newEndpoints stand in for kube-proxy until the spec ends.
func newEndpoints() *sandbox.Endpoints {
	GinkgoHelper()
	endpoints, err := sandbox.NewEndpoints()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(endpoints.Close)
	return endpoints
}
