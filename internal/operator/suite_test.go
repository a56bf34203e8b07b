// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func TestOperator(t *testing.T) { suite.Run(t, "Operator", suite.Default) }

// shared is an API server that stores any number, as one did before the bounds, and no webhooks. Each process has one of its own: an operator acts on all
// namespaces, and specs of one process run one after the other. Specs that install other definitions, or change these, start their own.
var shared *rest.Config

var _ = BeforeSuite(func() {
	dir := GinkgoTB().TempDir()
	Expect(writeBoundless(dir)).To(Succeed())
	shared = launch(dir)
})

// launch starts an API server with the definitions of a folder, and what converts their objects.
func launch(definitions string, apis ...string) *rest.Config {
	GinkgoHelper()
	return launchWith(definitions, func(arguments *envtest.Arguments) {
		if len(apis) > 0 {
			arguments.Append("runtime-config", apis...)
		}
	})
}

// launchWith is the same with further arguments of the API server.
func launchWith(definitions string, configure func(*envtest.Arguments)) *rest.Config {
	GinkgoHelper()
	env := &envtest.Environment{}
	configure(env.ControlPlane.GetAPIServer().Configure())
	config, err := apiserver.Launch(env)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)
	config.QPS = -1
	server := conversion.Serve()
	DeferCleanup(server.Close)
	Expect(server.Install(config, definitions)).To(Succeed())
	return config
}

// What the operators of these specs ask for is what their rights allow.
var (
	_ = AfterSuite(rights.Of("operator").PassOn)
	_ = ReportAfterSuite("The rights that the operator uses", rights.Of("operator").Check)
)

// writeBoundless writes the definitions without the bounds of replicas and of nodes.
func writeBoundless(dir string) error {
	bases := filepath.Join("..", "..", "config", "crd", "bases")
	files, err := os.ReadDir(bases)
	if err != nil {
		return err
	}
	maximum := regexp.MustCompile(`(?m)^ *maximum: (4096|65536)\n`)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(bases, file.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file.Name()), maximum.ReplaceAll(text, nil), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// newNamespace makes a namespace for a spec. After the spec it is empty: the next operator finds nothing to do there.
func newNamespace(c client.Client) string {
	GinkgoHelper()
	name := suite.Namespace(c)
	DeferCleanup(func(ctx SpecContext) {
		for _, kind := range []client.Object{
			&nvidiav1alpha1.DynamoGraphDeployment{}, &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{}, &trellisv1alpha1.ScalingGroup{},
			&trellisv1alpha1.GraphPlacement{}, &corev1.Pod{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
		} {
			Expect(c.DeleteAllOf(ctx, kind, client.InNamespace(name), client.GracePeriodSeconds(0))).To(Succeed())
		}
	})
	return name
}

// newNode makes a node until the spec ends.
func newNode(c client.Client) string {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	Expect(c.Create(context.Background(), node)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { _ = c.Delete(ctx, node) })
	return node.Name
}
