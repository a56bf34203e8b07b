// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// Kubernetes serves resource.k8s.io/v1 from 1.34 on. make test-versions runs scenarios on the older ones.
var _ = Describe("An operator on a cluster that serves no ResourceClaims", Ordered, ContinueOnFailure, func() {
	var config *rest.Config
	BeforeAll(func() {
		config = launch(filepath.Join("..", "..", "config", "crd", "bases"), "resource.k8s.io/v1=false")
	})

	DescribeTable("creates the pods of a graph", func(ctx SpecContext, watched func(namespace string) []string) {
		admin, err := client.New(config, client.Options{Scheme: NewScheme()})
		Expect(err).NotTo(HaveOccurred())
		namespace := suite.Namespace(admin)
		b := newBareOn(ctx, config, client.New, func(o *Options) { o.WatchNamespaces = watched(namespace) })
		b.hosts(1)
		dgd := deployment(namespace, graphs.Components{"Worker": graphs.Worker(1, 1, 1, "")})
		Expect(b.c.Create(ctx, dgd)).To(Succeed())
		b.until("the graph has its pod", func() error {
			if len(b.pods(dgd.Namespace)) == 0 {
				return errors.New("it has none")
			}
			return nil
		})
	},
		Entry("in all namespaces", SpecTimeout(suite.Timeout()), func(string) []string { return nil }),
		Entry("in one namespace", SpecTimeout(suite.Timeout()), func(namespace string) []string { return []string{namespace} }),
	)
})
