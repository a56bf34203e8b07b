// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// root is the root of the repository, and own the operator's namespace.
var root = filepath.Join("..", "..")

const own = "trellis-system"

var (
	cluster *sandbox.Sandbox
	api     client.WithWatch
)

func TestKarpenter(t *testing.T) { suite.Run(t, "Real Karpenter", suite.Default) }

var _ = BeforeSuite(func(ctx SpecContext) {
	absolute, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())
	names := []string{peers.Kueue, peers.Karpenter}
	set, err := peers.Find(absolute, names...)
	Expect(err).NotTo(HaveOccurred())
	AddReportEntry("The peers", strings.Join(set.Versions(ctx), "; "))
	scratch, err := os.MkdirTemp("", "trellis-karpenter")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, scratch)
	cluster, err = sandbox.Up(ctx, sandbox.Options{
		Name: "karpenter", Dir: filepath.Join(scratch, "s"), Root: absolute, Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1},
		Operator: true, Manager: sandbox.ManagerOptions{Args: peers.OperatorFlags(names...)}, Peers: set.Beside(progress.Discard),
	})
	Expect(err).NotTo(HaveOccurred(), "bringing the sandbox up")
	DeferCleanup(cluster.Down, NodeTimeout(suite.Timeout()))
	config, err := cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	api = suite.Connect(ctx, config, operator.NewScheme())
	Expect(api.DeleteAllOf(ctx, &corev1.Node{})).To(Succeed(), "the sandbox' own node")
	Expect(api.Create(ctx, &grovev1alpha1.ClusterTopology{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Spec: grovev1alpha1.ClusterTopologySpec{
			Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: corev1.LabelTopologyZone}, {Domain: "host", Key: corev1.LabelHostname}}},
	})).To(Succeed())
	DeferOnFailure(keepLogs)
}, NodeTimeout(suite.Timeout()))

// keepLogs adds the ends of the logs to the report of a failed spec.
func keepLogs() {
	for _, name := range []string{sandbox.DefaultManager, peers.KarpenterProgram, peers.KueueProgram} {
		AddReportEntry("the end of the log of "+name, strings.TrimSpace(proc.Tail(cluster.LogFile(name), 60)), ReportEntryVisibilityFailureOrVerbose)
	}
}

// until waits until look returns no error; the last error describes the missing state.
func until(ctx context.Context, what string, look func() error) {
	GinkgoHelper()
	Eventually(ctx, look).Should(Succeed(), "waiting until "+what)
}

// nodes returns an error unless the cluster has the given number of nodes.
func nodes(ctx context.Context, want int) error {
	list := &corev1.NodeList{}
	if err := api.List(ctx, list); err != nil {
		return err
	}
	if len(list.Items) != want {
		return fmt.Errorf("there are %d nodes", len(list.Items))
	}
	return nil
}

func pods(ctx context.Context, namespace string, options ...client.ListOption) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := api.List(ctx, list, append(options, client.InNamespace(namespace))...)
	return list.Items, err
}

// none returns an error while a placeholder exists.
func none(ctx context.Context) error {
	left, err := pods(ctx, own, client.HasLabels{capacity.LabelAsk})
	if err == nil && len(left) > 0 {
		return fmt.Errorf("%d placeholders are left", len(left))
	}
	return err
}

// together returns an error until the given number of pods of a deployment is bound in one zone.
func together(ctx context.Context, namespace string, want int) error {
	bound, err := pods(ctx, namespace, client.HasLabels{render.LabelGraph})
	if err != nil {
		return err
	}
	zones := map[string]int{}
	for i := range bound {
		if bound[i].Spec.NodeName == "" {
			return fmt.Errorf("pod %s is not bound", bound[i].Name)
		}
		node := &corev1.Node{}
		if err := api.Get(ctx, client.ObjectKey{Name: bound[i].Spec.NodeName}, node); err != nil {
			return err
		}
		zones[node.Labels[corev1.LabelTopologyZone]]++
	}
	if len(zones) != 1 || len(bound) != want {
		return fmt.Errorf("%d pods are bound in zones %v", len(bound), zones)
	}
	return nil
}

// gang returns a deployment of one replica in one zone, with a node for each pod.
func gang(namespace string, pods int32) *nvidiav1alpha1.DynamoGraphDeployment {
	return &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "llm", Annotations: map[string]string{capacity.AnnotationKind: capacity.KindPlaceholders}},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{
			TopologyConstraint: &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: "cloud", PackDomain: "zone"},
			Services:           graphs.Components{"Worker": graphs.Worker(1, pods, 8, "")},
		},
	}
}

func ready(ctx context.Context, dgd *nvidiav1alpha1.DynamoGraphDeployment) error {
	if err := api.Get(ctx, client.ObjectKeyFromObject(dgd), dgd); err != nil {
		return err
	}
	if !meta.IsStatusConditionTrue(dgd.Status.Conditions, nvidiav1alpha1.ConditionReady) {
		return fmt.Errorf("it is not: %+v", dgd.Status.Conditions)
	}
	return nil
}

var _ = Describe("A gang that waits for capacity", func() {
	It("gets nodes for all its pods in one zone, and they are removed when it is gone", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		const namespace = "team"
		Expect(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		until(ctx, "there is no node", func() error { return nodes(ctx, 0) })

		By("a gang of three pods, each of a whole node")
		dgd := gang(namespace, 3)
		until(ctx, "the deployment is created", func() error { return api.Create(ctx, dgd) })
		until(ctx, "all pods are bound in one zone", func() error { return together(ctx, namespace, 3) })
		until(ctx, "no placeholder is left", func() error { return none(ctx) })
		until(ctx, "the deployment is Ready", func() error { return ready(ctx, dgd) })
		Expect(nodes(ctx, 3)).To(Succeed())

		By("it is deleted")
		Expect(api.Delete(ctx, dgd)).To(Succeed())
		until(ctx, "there is no node", func() error { return nodes(ctx, 0) })
		Expect(none(ctx)).To(Succeed())
	})
})
