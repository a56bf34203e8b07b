// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// nodeIs waits until the Ready condition of a node has a status.
func (w *world) nodeIs(name string, want corev1.ConditionStatus) {
	GinkgoHelper()
	w.until(fmt.Sprintf("Ready of node %s is %s", name, want), func() error {
		node := &corev1.Node{}
		if err := api.Get(w.ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		if have := ready(node); have != want {
			return fmt.Errorf("it is %s", have)
		}
		return nil
	})
}

// gpus waits until a node has the given number of GPUs.
func (w *world) gpus(name string, want int64) {
	GinkgoHelper()
	w.until(fmt.Sprintf("node %s has %d GPUs", name, want), func() error {
		node := &corev1.Node{}
		if err := api.Get(w.ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		if have := node.Status.Allocatable[simulated.GPU]; have.Value() != want {
			return fmt.Errorf("it has %s", have.String())
		}
		return nil
	})
}

// relabel moves a node to another rack.
func relabel(ctx SpecContext, name, rack string) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, simulated.RackKey, rack)
	node := &corev1.Node{}
	node.Name = name
	Expect(api.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// mixed is solo on a real node, because only these have GPUs, and a component on the simulated node.
var mixed = solo(peerContainer, "") + fmt.Sprintf(`
  - name: Frontend
    type: frontend
    podTemplate:
      spec:
        nodeSelector: {%s: zone-0}
        containers: [{name: main, image: "localhost/peer:1"}]
`, simulated.ZoneKey)

// renewed waits until all former pods of the gang are replaced.
func (w *world) renewed(former ...*corev1.Pod) {
	GinkgoHelper()
	old := map[types.UID]bool{}
	for _, pod := range former {
		old[pod.UID] = true
	}
	w.until("both pods of the gang are new", func() error {
		pods := w.pods("Worker")
		if len(pods) != 2 || old[pods[0].UID] || old[pods[1].UID] {
			return errors.New("old ones are there, or less than two")
		}
		return nil
	})
}

var _ = Describe("A gang on real nodes", Serial, func() {
	It("runs on while a kubelet is restarted", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(duo)
		w.ready("duo")
		_, follower := w.gang()
		before, err := ask(ctx, follower)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.StopKubelet(ctx, follower.Spec.NodeName)).To(Succeed())
		Expect(cluster.StartKubelet(ctx, follower.Spec.NodeName)).To(Succeed())
		w.ready("duo")
		_, same := w.gang()
		Expect(same.UID).To(Equal(follower.UID))
		Expect(same.Status.ContainerStatuses[0].RestartCount).To(BeZero())
		after, err := ask(ctx, same)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Exchanges).To(BeNumerically(">", before.Exchanges))
	})

	It("stays when its nodes get other labels, until a kubelet is restarted", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(duo)
		w.ready("duo")
		leader, follower := w.gang()
		rack := rackOf(ctx, leader)
		node := follower.Spec.NodeName
		relabel(ctx, node, "rack-9")
		DeferCleanup(func(ctx SpecContext) { relabel(ctx, node, rack) })
		w.ready("duo")
		_, same := w.gang()
		Expect(same.UID).To(Equal(follower.UID), "the pod after its node got another label")
		Expect(cluster.StopKubelet(ctx, node)).To(Succeed())
		Expect(cluster.StartKubelet(ctx, node)).To(Succeed())
		// The kubelet rejects the pod by the label of its node, or by its devices while their plugin has not registered again.
		w.until("the rejection is reported", func() error {
			err := w.unhealthy("duo", "Worker", trellisv1alpha1.ReasonReplicaFailed, []string{"on node " + node, "NodeAffinity"})
			if err != nil && w.unhealthy("duo", "Worker", trellisv1alpha1.ReasonReplicaFailed, []string{"on node " + node, "OutOfnvidia.com/gpu"}) == nil {
				return nil
			}
			return err
		})
		w.renewed(leader, follower)
		w.ready("duo")
		now, other := w.gang()
		Expect(rackOf(ctx, now)).To(Equal(rackOf(ctx, other)), "the rack of both")
		w.exchanged("names after the kubelet has ended a pod")
	})

	DescribeTable("is reported while a node is not ready, and runs on afterwards",
		func(ctx SpecContext, lose, bring func(SpecContext, string)) {
			w := newWorld(ctx)
			w.apply(strings.ReplaceAll(duo, "tolerationSeconds: 2", "tolerationSeconds: 600"))
			w.ready("duo")
			leader, follower := w.gang()
			node := follower.Spec.NodeName
			lose(ctx, node)
			w.health("duo", "Worker", trellisv1alpha1.ReasonPodsNotReady, "pod "+follower.Name, "its node "+node+" is not ready")
			bring(ctx, node)
			w.nodeIs(node, corev1.ConditionTrue)
			w.ready("duo")
			same, other := w.gang()
			Expect([]types.UID{same.UID, other.UID}).To(Equal([]types.UID{leader.UID, follower.UID}))
			w.exchanged("names when the node is back")
		},
		Entry("after a reboot", SpecTimeout(suite.Timeout()), crash, boot),
		Entry("after a partition", SpecTimeout(suite.Timeout()),
			func(ctx SpecContext, node string) { Expect(cluster.CutNode(ctx, node)).To(Succeed()) },
			func(ctx SpecContext, node string) { Expect(cluster.JoinNode(ctx, node)).To(Succeed()) }),
	)

	It("serves with a component on a simulated node", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		cordonSimulated(ctx, api, false)
		DeferCleanup(func(ctx SpecContext) { cordonSimulated(ctx, api, true) })
		w := newWorld(ctx)
		w.apply(mixed)
		w.ready("solo")
		shown := plugin(ctx, "tree", "--namespace="+w.namespace)
		for component, zone := range map[string]string{"Frontend": "zone-0", "Worker": "real"} {
			pod, node := w.pod(component), &corev1.Node{}
			Expect(api.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)).To(Succeed())
			Expect(node.Labels).To(HaveKeyWithValue(simulated.ZoneKey, zone), "the node of %s", component)
			Expect(shown).To(ContainSubstring(node.Name))
		}
		_, err := ask(ctx, w.pod("Worker"))
		Expect(err).NotTo(HaveOccurred(), "the program on the real node")
	})

	It("moves to the other rack when the disk of a node is full", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(duo)
		w.ready("duo")
		leader, follower := w.gang()
		rack, node := rackOf(ctx, leader), follower.Spec.NodeName
		Expect(cluster.FillDisk(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(cluster.EmptyDisk(ctx, node)).To(Succeed()) }, NodeTimeout(suite.Timeout()))
		w.health("duo", "Worker", trellisv1alpha1.ReasonReplicaFailed, "pod "+follower.Name, "Evicted: The node had condition: [DiskPressure]")
		w.renewed(leader, follower)
		w.ready("duo")
		now, other := w.gang()
		Expect(rackOf(ctx, now)).To(And(Equal(rackOf(ctx, other)), Not(Equal(rack))), "the rack of both")
		w.exchangedWithout("names after an eviction", leader, follower)
	})

	It("moves to the other rack when a kubelet does not admit a pod", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(duo)
		w.ready("duo")
		leader, follower := w.gang()
		rack, node := rackOf(ctx, leader), follower.Spec.NodeName
		Expect(cluster.RefuseGPUs(node)).To(Succeed())
		DeferCleanup(cluster.AdmitGPUs, node)
		Expect(api.Delete(ctx, follower)).To(Succeed())
		w.health("duo", "Worker", trellisv1alpha1.ReasonReplicaFailed, "on node "+node, "UnexpectedAdmissionError")
		w.renewed(leader, follower)
		w.ready("duo")
		now, other := w.gang()
		Expect(rackOf(ctx, now)).To(And(Equal(rackOf(ctx, other)), Not(Equal(rack))), "the rack of both")
		w.exchangedWithout("names after a refusal", leader, follower)
	})

	It("stays when GPUs break, and another one goes elsewhere", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(half)
		w.ready("duo")
		leader, follower := w.gang()
		node := follower.Spec.NodeName
		Expect(cluster.BreakGPUs(node, 8)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(cluster.BreakGPUs(node, 0)).To(Succeed())
			w.ctx = ctx
			w.gpus(node, 8)
		}, NodeTimeout(suite.Timeout()))
		w.gpus(node, 0)
		w.apply(strings.ReplaceAll(half, "name: duo", "name: other"))
		w.ready("other")
		w.ready("duo")
		for _, pod := range w.pods("Worker") {
			if pod.UID == leader.UID || pod.UID == follower.UID {
				continue
			}
			Expect(rackOf(ctx, &pod)).NotTo(Equal(rackOf(ctx, leader)), "the rack of the gang that came later")
		}
		Expect(w.pods("Worker")).To(ContainElements(HaveField("UID", leader.UID), HaveField("UID", follower.UID)))
	})

	It("moves to the other rack when a node is lost", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(duo)
		w.ready("duo")
		leader, follower := w.gang()
		rack := rackOf(ctx, leader)
		crash(ctx, leader.Spec.NodeName)
		DeferCleanup(func(ctx SpecContext) {
			w.ctx = ctx
			boot(ctx, leader.Spec.NodeName)
			w.nodeIs(leader.Spec.NodeName, corev1.ConditionTrue)
		}, NodeTimeout(suite.Timeout()))
		w.renewed(leader, follower)
		w.ready("duo")
		now, other := w.gang()
		Expect(rackOf(ctx, now)).To(And(Equal(rackOf(ctx, other)), Not(Equal(rack))), "the rack of both")
		w.exchanged("names after a lost node")
	})
})

func crash(ctx SpecContext, node string) { Expect(cluster.CrashNode(ctx, node)).To(Succeed()) }

func boot(_ SpecContext, node string) { Expect(cluster.BootNode(node)).To(Succeed()) }
