// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// api is a client of the suite's API server.
var api client.Client

func TestOnAPIServer(t *testing.T) { suite.Run(t, "Gates placer", suite.Default) }

var _ = SynchronizedBeforeSuite(func() []byte {
	env := &envtest.Environment{}
	apiserver.Start(GinkgoTB(), env)
	return env.KubeConfig
}, func(kubeconfig []byte) {
	config, err := apiserver.Connect(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	api, err = client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
})
