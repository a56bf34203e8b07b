// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func TestOnAPIServer(t *testing.T) { suite.Run(t, "Scaling groups", suite.Default) }

// shared is a real API server without kubelets and schedulers: the specs play them, and call Reconcile themselves. Each works in a namespace of its own.
var shared *rest.Config

var _ = SynchronizedBeforeSuite(func(ctx SpecContext) []byte {
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	admin := apiserver.Start(GinkgoTB(), env)
	Expect(admin.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"rack": "r"}}})).To(Succeed())
	return env.KubeConfig
}, func(kubeconfig []byte) {
	var err error
	shared, err = apiserver.Connect(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(suite.Timeout()))
