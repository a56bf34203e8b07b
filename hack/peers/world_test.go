// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

const (
	zoneKey = "topology.kubernetes.io/zone"
	rackKey = "topology.trellis.dev/rack"
	poolKey = "peers.trellis.dev/pool"
	// patience with one step: KAI and Grove work in cycles, and a lost node is noticed by Kubernetes after its own while.
	patience = time.Minute
)

type services = graphs.Services

var worker, frontend = graphs.Worker, graphs.Frontend

// world is one scenario's cluster: its nodes are all there are, since Grove's scheduler knows no pools.
type world struct {
	testing.TB
	name     string
	provider string
}

// providers are the annotations that choose them. The words of a name are the peers it needs.
var providers = map[string]map[string]string{
	"KAI":                      {graph.AnnotationProvider: specs.KAI.Name},
	"Grove":                    {graph.AnnotationProvider: specs.Grove.Name, "nvidia.com/kai-scheduler-queue": "default-queue"},
	"LeaderWorkerSet":          {graph.AnnotationProvider: specs.Gates.Name, graph.AnnotationWorkload: specs.LeaderWorkerSet},
	"KAI with LeaderWorkerSet": {graph.AnnotationProvider: specs.KAI.Name, graph.AnnotationWorkload: specs.LeaderWorkerSet},
}

var scenarios int

func newWorld(t *testing.T, provider string, hosts ...host) *world {
	t.Helper()
	scenarios++
	w := &world{TB: t, name: fmt.Sprintf("%s-%d", strings.ToLower(provider[:3]), scenarios), provider: provider}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	t.Cleanup(w.tearDown)
	w.addHosts(hosts...)
	w.create(w.topology())
	return w
}

func (w *world) tearDown() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if w.Failed() {
		w.Log(w.describe(ctx))
	}
	_ = api.DeleteAllOf(ctx, &nvidiav1alpha1.DynamoGraphDeployment{}, client.InNamespace(w.name))
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := api.List(ctx, pods, client.InNamespace(w.name), client.HasLabels{graph.LabelGraph})
		return err == nil && len(pods.Items) == 0, nil
	})
	if err != nil {
		w.Error("pods are left when the deployments are deleted")
	}
	_ = api.Delete(ctx, w.topology())
	_ = api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	_ = api.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{poolKey: w.name})
}

// describe is what one would want to see of a scenario that failed.
func (w *world) describe(ctx context.Context) string {
	var b strings.Builder
	dgds := &nvidiav1alpha1.DynamoGraphDeploymentList{}
	_ = api.List(ctx, dgds, client.InNamespace(w.name))
	for i := range dgds.Items {
		status, _ := yaml.Marshal(dgds.Items[i].Status)
		fmt.Fprintf(&b, "dgd %s:\n%s", dgds.Items[i].Name, status)
	}
	pods := &corev1.PodList{}
	_ = api.List(ctx, pods, client.InNamespace(w.name))
	for i := range pods.Items {
		p := &pods.Items[i]
		fmt.Fprintf(&b, "pod %s node=%s phase=%s gates=%v selector=%v deleting=%v\n", p.Name, p.Spec.NodeName, p.Status.Phase, p.Spec.SchedulingGates, p.Spec.NodeSelector, p.DeletionTimestamp != nil)
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
				fmt.Fprintf(&b, "    %s: %s\n", c.Reason, c.Message)
			}
		}
	}
	events := &eventsv1.EventList{}
	_ = api.List(ctx, events, client.InNamespace(w.name))
	for i := range events.Items {
		e := &events.Items[i]
		fmt.Fprintf(&b, "event %s %s/%s %s: %s\n", e.Type, e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
	}
	return b.String()
}

func (w *world) create(o client.Object) {
	w.Helper()
	w.until("it is created", func() error { return api.Create(w.Context(), o) }) // the peers' webhooks start a moment after their programs
}

func (w *world) until(what string, look func() error) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = look()
		return last == nil, nil
	})
	if err != nil {
		w.Fatalf("waiting until %s: %v", what, last)
	}
}

// always checks for a while that nothing changes.
func (w *world) always(what string, look func() error) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 250*time.Millisecond, 5*time.Second, true, func(context.Context) (bool, error) {
		last = look()
		return last != nil, nil
	})
	if err == nil {
		w.Fatalf("%s: %v", what, last)
	}
}

// graph returns a deployment for the world's provider.
func (w *world) graph(name, packDomain string, services services) *nvidiav1alpha1.DynamoGraphDeployment {
	return &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name, Annotations: maps.Clone(providers[w.provider])},
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

// host is a node: its place and its GPUs.
type host struct {
	zone, rack, name string
	gpus             int
}

// racks makes hosts hosts of 8 GPUs in each named rack, "zone/rack".
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
	w.Helper()
	for _, h := range hosts {
		node := sandbox.NewNode(w.name+"-"+h.name, h.gpus, map[string]string{zoneKey: h.zone, rackKey: h.rack, poolKey: w.name})
		if err := cluster.AddNodes(w.Context(), node); err != nil {
			w.Fatalf("adding node %s: %v", node.Name, err)
		}
	}
}

func (w *world) patch(o client.Object, change string) {
	w.Helper()
	if err := api.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
		w.Fatal(err)
	}
}

func (w *world) scale(service string, replicas int) {
	w.Helper()
	w.patch(w.dgd("g"), fmt.Sprintf(`{"spec":{"services":{%q:{"replicas":%d}}}}`, service, replicas))
}

func (w *world) remove(o client.Object) {
	w.Helper()
	if err := api.Delete(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

// cordon the nodes of a rack, "zone/rack".
func (w *world) cordon(path string, on bool) {
	w.Helper()
	zone, rack, _ := strings.Cut(path, "/")
	nodes := &corev1.NodeList{}
	if err := api.List(w.Context(), nodes, client.MatchingLabels{poolKey: w.name, zoneKey: zone, rackKey: rack}); err != nil {
		w.Fatal(err)
	}
	for i := range nodes.Items {
		w.patch(&nodes.Items[i], fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on))
	}
}

// replaced waits until a deployment has n pods of a service of which none was there before.
func (w *world) replaced(service string, n int, do func()) {
	w.Helper()
	before := graphs.UIDs(w.pods("g", service))
	do()
	w.until("the pods are new", func() error { return graphs.AllNew(before, w.pods("g", service), n) })
}
