// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	zoneKey = "topology.kubernetes.io/zone"
	rackKey = "topology.trellis.dev/rack"
	poolKey = "peers.trellis.dev/pool"
)

type services = graphs.Components

var worker, frontend = graphs.Worker, graphs.Frontend

// world is the cluster of one scenario. It has only the scenario's nodes, because Grove's scheduler has no node pools.
type world struct {
	// ctx ends with the spec.
	ctx      context.Context
	name     string
	provider provider
}

var scenarios int

func newWorld(ctx context.Context, p provider, hosts ...host) *world {
	GinkgoHelper()
	scenarios++
	w := &world{ctx: ctx, name: fmt.Sprintf("%s-%d", strings.ToLower(p.name[:3]), scenarios), provider: p}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	DeferOnFailure(w.describe, NodeTimeout(suite.Patience()))
	DeferCleanup(w.removeCluster, NodeTimeout(suite.Patience()))
	DeferCleanup(w.removeGraphs, NodeTimeout(2*suite.Patience())) // runs first, because cleanups run in reverse order
	w.addHosts(hosts...)
	w.create(w.topology())
	return w
}

// underGrove reports whether Grove places the world's deployments instead of Trellis.
func (w *world) underGrove() bool { return w.provider.name == specs.Grove.Name }

// removeGraphs deletes the deployments, and waits until no pod is left.
func (w *world) removeGraphs(ctx SpecContext) {
	Expect(api.DeleteAllOf(ctx, &nvidiav1alpha1.DynamoGraphDeployment{}, client.InNamespace(w.name))).To(Succeed())
	Eventually(ctx, func() error {
		pods := &corev1.PodList{}
		if err := api.List(ctx, pods, client.InNamespace(w.name), client.HasLabels{render.LabelGraph}); err != nil {
			return err
		}
		return count(pods.Items, 0)
	}).Should(Succeed(), "waiting until no pods are left of the deployments")
}

func (w *world) removeCluster(ctx SpecContext) {
	_ = api.Delete(ctx, w.topology())
	_ = api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	_ = api.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{poolKey: w.name})
}

func (w *world) create(o client.Object) {
	GinkgoHelper()
	w.until("it is created", func() error { return api.Create(w.ctx, o) }) // the peers' webhooks start a moment after their programs
}

// createOutside creates a cluster-scoped object and deletes it when the spec ends.
func (w *world) createOutside(o client.Object) {
	GinkgoHelper()
	w.create(o)
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(api.Delete(ctx, o)) }, NodeTimeout(suite.Patience()))
}

// until waits until look returns no error; the last error describes the missing state.
func (w *world) until(what string, look func() error) {
	GinkgoHelper()
	Eventually(w.ctx, look).Should(Succeed(), "waiting until "+what)
}

func (w *world) answered(call func() error) {
	GinkgoHelper()
	suite.Answered(w.ctx, call)
}

// graph returns a deployment for the world's provider.
func (w *world) graph(name, packDomain string, services services) *nvidiav1alpha1.DynamoGraphDeployment {
	return &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name, Annotations: maps.Clone(w.provider.annotations)},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{
			TopologyConstraint: &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: w.name, PackDomain: packDomain},
			Services:           services,
		},
	}
}

func (w *world) topology() *grovev1alpha1.ClusterTopology {
	return &grovev1alpha1.ClusterTopology{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec: grovev1alpha1.ClusterTopologySpec{Levels: []grovev1alpha1.TopologyLevel{
			{Domain: "zone", Key: zoneKey}, {Domain: "rack", Key: rackKey}, {Domain: "host", Key: corev1.LabelHostname},
		}},
	}
}

// host is a node: its domains and its GPUs.
type host struct {
	zone, rack, name string
	gpus             int
}

// racks returns, for each path "zone/rack", that number of hosts with 8 GPUs each.
func racks(hosts int, paths ...string) []host {
	var out []host
	for _, path := range paths {
		zone, rack, _ := strings.Cut(path, "/")
		for i := range hosts {
			out = append(out, host{zone: zone, rack: rack, name: fmt.Sprintf("%s-%s-%d", zone, rack, i), gpus: 8})
		}
	}
	return out
}

func (w *world) addHosts(hosts ...host) {
	GinkgoHelper()
	for _, h := range hosts {
		node := simulated.NewNode(w.name+"-"+h.name, h.gpus, map[string]string{zoneKey: h.zone, rackKey: h.rack, poolKey: w.name})
		Expect(cluster.AddNodes(w.ctx, node)).To(Succeed(), "adding node %s", node.Name)
	}
}

func (w *world) patch(o client.Object, change string) {
	GinkgoHelper()
	w.answered(func() error { return api.Patch(w.ctx, o, client.RawPatch(types.MergePatchType, []byte(change))) })
}

func (w *world) scale(service string, replicas int) {
	GinkgoHelper()
	w.patch(w.dgd("g"), fmt.Sprintf(`{"spec":{"services":{%q:{"replicas":%d}}}}`, service, replicas))
}

func (w *world) remove(o client.Object) {
	GinkgoHelper()
	Expect(api.Delete(w.ctx, o)).To(Succeed())
}

// setLevels changes the levels of the world's topology.
func (w *world) setLevels(levels []grovev1alpha1.TopologyLevel) {
	GinkgoHelper()
	w.until("the levels are changed", func() error {
		topology := &grovev1alpha1.ClusterTopology{}
		if err := api.Get(w.ctx, client.ObjectKeyFromObject(w.topology()), topology); err != nil {
			return err
		}
		topology.Spec.Levels = levels
		return api.Update(w.ctx, topology)
	})
}

// cordon cordons the nodes of a rack, "zone/rack".
func (w *world) cordon(path string) {
	GinkgoHelper()
	zone, rack, _ := strings.Cut(path, "/")
	nodes := &corev1.NodeList{}
	w.answered(func() error {
		return api.List(w.ctx, nodes, client.MatchingLabels{poolKey: w.name, zoneKey: zone, rackKey: rack})
	})
	for i := range nodes.Items {
		w.patch(&nodes.Items[i], `{"spec":{"unschedulable":true}}`)
	}
}

// replaced calls do, and waits until a service of a deployment has n pods, all of them new.
func (w *world) replaced(service string, n int, do func()) {
	GinkgoHelper()
	before := graphs.UIDs(w.pods("g", service))
	do()
	w.until("the pods are new", func() error { return graphs.AllNew(before, w.pods("g", service), n) })
}
