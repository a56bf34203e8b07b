// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	operatorNamespace = "trellis-system"
	managerDeployment = "trellis-controller-manager"
	managerLease      = "trellis-manager.trellis.dev"
)

// installed is a sandbox with an unmodified config/default: the operator in two pods of real nodes.
type installed struct {
	sandbox *sandbox.Sandbox
	api     client.WithWatch
}

func install(ctx SpecContext) *installed {
	GinkgoHelper()
	scratch, err := os.MkdirTemp("", "trellis-nodes")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.Remove, scratch)
	manifests := filepath.Join(root, "config", "default")
	image, err := sandbox.ManagerImage(manifests)
	Expect(err).NotTo(HaveOccurred())
	manager := built(ctx, scratch, filepath.Join(root, "cmd", "trellis-manager"))
	dir := filepath.Join(scratch, "s")
	Expect(reap(root, scratch, dir)).To(Succeed())
	running, err := sandbox.Up(ctx, sandbox.Options{
		Name: "pods", Dir: dir, Root: root,
		Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: -1},
		Real: sandbox.RealNodes{Count: realNodes, OperatorInPods: true, Images: []sandbox.Image{
			peerOf(ctx, scratch),
			{Name: image, Files: map[string]string{"/trellis-manager": manager}, Entrypoint: []string{"/trellis-manager"}},
		}},
	})
	Expect(err).NotTo(HaveOccurred(), "bringing the sandbox up")
	DeferCleanup(func(ctx SpecContext) {
		Expect(suite.KeepLogs(filepath.Join(dir, "logs"), filepath.Join(root, "bin", "nodes-logs-pods"))).To(Succeed())
		Expect(running.Down(ctx)).To(Succeed())
	}, NodeTimeout(suite.Timeout()))
	config, err := running.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	o := &installed{running, suite.Connect(ctx, config, operator.NewScheme())}
	cordonSimulated(ctx, o.api, true)
	Expect(running.InstallInPods(ctx, manifests)).To(Succeed())
	o.rolledOut(ctx)
	Expect(o.api.Create(ctx, hall())).To(Succeed())
	return o
}

// rolledOut waits until two replicas of the current revision are available, and no other replica is left.
func (o *installed) rolledOut(ctx SpecContext) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		d := &appsv1.Deployment{}
		if err := o.api.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: managerDeployment}, d); err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != 2 || s.AvailableReplicas != 2 || s.Replicas != 2 {
			return fmt.Errorf("the Deployment is at %+v", s)
		}
		if pods := o.replicas(ctx); len(pods) != 2 {
			return fmt.Errorf("%d pods", len(pods))
		}
		return nil
	}).Should(Succeed(), "waiting for two replicas of the operator")
}

// replicas returns the pods of the operator by name, including terminating ones.
func (o *installed) replicas(ctx SpecContext) map[string]*corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	suite.Answered(ctx, func() error { return o.api.List(ctx, list, client.InNamespace(operatorNamespace)) })
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods
}

// leader returns the pod whose name begins the identity in the lease; nil if no pod matches.
func (o *installed) leader(ctx SpecContext) *corev1.Pod {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	suite.Answered(ctx, func() error {
		return o.api.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: managerLease}, lease)
	})
	for name, pod := range o.replicas(ctx) {
		if lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, name) {
			return pod
		}
	}
	return nil
}

// newLeader waits until another pod leads.
func (o *installed) newLeader(ctx SpecContext, former *corev1.Pod) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		if now := o.leader(ctx); now == nil || now.UID == former.UID {
			return errors.New("the lease is with the former leader, or with none")
		}
		return nil
	}).Should(Succeed(), "waiting until another replica leads")
}

var _ = Describe("The operator in two pods, installed by config/default", Ordered, SpecPriority(1), func() {
	var o *installed
	BeforeAll(func(ctx SpecContext) { o = install(ctx) }, NodeTimeout(suite.Timeout()))

	It("refuses no request while it is rolled out", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		former := o.replicas(ctx)
		asking := o.ask(ctx)
		restart := client.RawPatch(types.MergePatchType,
			[]byte(`{"spec":{"template":{"metadata":{"annotations":{"test/restarted":"1"}}}}}`))
		d := &appsv1.Deployment{}
		d.Namespace, d.Name = operatorNamespace, managerDeployment
		Expect(o.api.Patch(ctx, d, restart)).To(Succeed())
		o.rolledOut(ctx)
		for name := range o.replicas(ctx) {
			Expect(former).NotTo(HaveKey(name))
		}
		asking.untilAnswered(ctx, settled)
		asked, refused := asking.end()
		AddReportEntry("requests during a rollout", fmt.Sprintf("%d, refused %d", asked, len(refused)), ReportEntryVisibilityAlways)
		Expect(refused).To(BeEmpty())
	})

	DescribeTable("places a gang after the leader's node is lost",
		func(ctx SpecContext, lose, bring func(SpecContext, string)) {
			former := o.leader(ctx)
			Expect(former).NotTo(BeNil())
			asking := o.ask(ctx)
			lose(ctx, former.Spec.NodeName)
			o.newLeader(ctx, former)
			asking.untilAnswered(ctx, settled)
			asked, refused := asking.end()
			AddReportEntry("requests around the loss of the leader's node", fmt.Sprintf("%d, refused %d: %s", asked, len(refused),
				strings.Join(refused, "\n")), ReportEntryVisibilityAlways)
			for _, request := range refused {
				Expect(request).To(MatchRegexp("failed calling webhook|conversion webhook .* failed"), "sent to the lost replica")
			}
			w := &world{ctx, o.api, suite.Namespace(o.api)}
			w.apply(solo(peerContainer, ""))
			w.ready("solo")
			placed := w.pod("Worker")
			bring(ctx, former.Spec.NodeName)
			o.ready(ctx, former.Spec.NodeName)
			o.rolledOut(ctx)
			w.ready("solo")
			Expect(w.pod("Worker").UID).To(Equal(placed.UID), "the pod that the new leader placed")
			w.remove()
		},
		Entry("in a crash", SpecTimeout(suite.Timeout()),
			func(ctx SpecContext, node string) { Expect(o.sandbox.CrashNode(ctx, node)).To(Succeed()) },
			func(_ SpecContext, node string) { Expect(o.sandbox.BootNode(node)).To(Succeed()) }),
		Entry("in a partition", SpecTimeout(suite.Timeout()),
			func(ctx SpecContext, node string) { Expect(o.sandbox.CutNode(ctx, node)).To(Succeed()) },
			func(ctx SpecContext, node string) { Expect(o.sandbox.JoinNode(ctx, node)).To(Succeed()) }),
	)
})

// ready waits until a node is Ready.
func (o *installed) ready(ctx SpecContext, name string) {
	GinkgoHelper()
	Eventually(ctx, func() (corev1.ConditionStatus, error) {
		node := &corev1.Node{}
		err := o.api.Get(ctx, client.ObjectKey{Name: name}, node)
		return ready(node), err
	}).Should(Equal(corev1.ConditionTrue), "Ready of node "+name)
}
