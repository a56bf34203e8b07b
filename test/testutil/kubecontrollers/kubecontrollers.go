// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubecontrollers runs controllers of Kubernetes on the API server of a spec.
package kubecontrollers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Run runs controllers of the kube-controller-manager until the spec ends.
func Run(server *rest.Config, controllers ...string) {
	ginkgo.GinkgoHelper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.Host, CertificateAuthorityData: server.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: server.CertData, ClientKeyData: server.KeyData}
	config.Contexts["x"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	file := filepath.Join(ginkgo.GinkgoT().TempDir(), "kubeconfig")
	gomega.Expect(clientcmd.WriteToFile(*config, file)).To(gomega.Succeed())
	program := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"), "--kubeconfig="+file,
		"--leader-elect=false", "--secure-port=0", "--controllers="+strings.Join(controllers, ","), "--kube-api-qps=1000",
		"--kube-api-burst=2000")
	gomega.Expect(program.Start()).To(gomega.Succeed())
	ginkgo.DeferCleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
}
