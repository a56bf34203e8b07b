// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// watched is the namespace whose deployments the running operator manages. Specs without it have theirs in another one.
const watched = "watched"

// betweenLooks is how long a scenario waits until it plays the systems that do not run here, and looks again.
const betweenLooks = 60 * time.Millisecond

// requeueAfter is short: the gang that cannot be bound waits for it. It is longer than a busy machine takes until the spec has bound what was released:
// a gang that is requeued meanwhile is evicted, and its scenario is another one.
const requeueAfter = 20 * time.Second

// lookEvery is short, for specs that switch a peer's API off and on.
const lookEvery = time.Second

// operate runs the whole operator, without admission, until the suite ends.
func operate(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	Expect(newClient(config).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}})).To(Succeed())
	running, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(ended)
		err := operator.Run(running, rights.Of("peers").Record(config, namespace), operator.Options{
			MetricsAddress: "0", ProbeAddress: "0", Namespace: namespace, WatchNamespaces: []string{watched}, QPS: 500, Burst: 1000,
			RequeueAfter: requeueAfter, HoldFor: scheduler.DefaultHoldFor, ReserveDomainAfter: -1, Provider: specs.Auto, LookEvery: lookEvery,
		})
		if err != nil && running.Err() == nil {
			AbortSuite("the operator ended: " + err.Error())
		}
	}()
	DeferCleanup(func() { end(); <-ended })
}

// world is one scenario's part of the cluster: a deployment, the ClusterTopology (zone, rack, host) it names and the nodes of that, all of one
// name.
type world struct {
	// ctx ends with the spec.
	ctx      context.Context
	ns, name string
	// refuses: the scheduler binds nothing, and explains why.
	refuses string
	// sets plays LeaderWorkerSet where that makes the pods of multinode components; else nil.
	sets *lwsWorld
}

// host is a node of a world: its place and its GPUs.
type host struct {
	zone, rack, name string
	gpus             int
}

// racks makes hosts hosts of gpus GPUs in each named rack, "zone/rack".
func racks(hosts, gpus int, paths ...string) []host {
	var out []host
	for _, path := range paths {
		zone, rack, _ := strings.Cut(path, "/")
		for i := range hosts {
			out = append(out, host{zone: zone, rack: rack, name: fmt.Sprintf("%s-%s-%d", zone, rack, i), gpus: gpus})
		}
	}
	return out
}

const (
	zoneKey = "example.com/zone"
	rackKey = "example.com/rack"
	poolKey = "example.com/pool"
)

func newWorld(ctx context.Context, name string, hosts ...host) *world {
	GinkgoHelper()
	return newWorldIn(ctx, watched, name, hosts...)
}

// newWorldIn is a world whose deployment is in a namespace that an operator manages.
func newWorldIn(ctx context.Context, ns, name string, hosts ...host) *world {
	GinkgoHelper()
	w := &world{ctx: ctx, ns: ns, name: name}
	w.addHosts(hosts...)
	made(ctx, &grovev1alpha1.ClusterTopology{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: grovev1alpha1.ClusterTopologySpec{
			NodeSelector: map[string]string{poolKey: name},
			Levels:       []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: zoneKey}, {Domain: "rack", Key: rackKey}, {Domain: "host", Key: corev1.LabelHostname}},
		},
	})
	DeferCleanup(w.tearDown)
	return w
}

func (w *world) addHosts(hosts ...host) {
	GinkgoHelper()
	for _, h := range hosts {
		room := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("192"), corev1.ResourceMemory: resource.MustParse("2Ti"), corev1.ResourcePods: resource.MustParse("110"),
			"nvidia.com/gpu": *resource.NewQuantity(int64(h.gpus), resource.DecimalSI),
		}
		name := w.name + "-" + h.name
		node := made(w.ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{zoneKey: h.zone, rackKey: h.rack, poolKey: w.name, corev1.LabelHostname: name}},
			Status:     corev1.NodeStatus{Allocatable: room, Capacity: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}},
		})
		if len(node.Spec.Taints) > 0 { // a new node is tainted until its controller has looked at it
			node.Spec.Taints = nil
			Expect(typed.Update(w.ctx, node)).To(Succeed())
		}
	}
}

// tearDown leaves nothing that would take capacity or be looked after: there is no garbage collector here.
func (w *world) tearDown(ctx SpecContext) {
	_ = typed.Delete(ctx, &nvidiav1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name}})
	for _, kind := range []string{"PodCliqueSet", "PodGroup"} {
		_ = client.Resource(resources[kind]).Namespace(w.ns).Delete(ctx, w.name, metav1.DeleteOptions{})
	}
	_ = client.Resource(resources[lws.Kind.Kind]).Namespace(w.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: render.LabelGraph + "=" + w.name})
	for _, kind := range []string{"ClusterTopologyBinding", "Topology"} {
		_ = client.Resource(resources[kind]).Delete(ctx, w.name, metav1.DeleteOptions{})
	}
	_ = typed.DeleteAllOf(ctx, newGroup(), ctrlclient.InNamespace(w.ns), w.ours())
	_ = typed.DeleteAllOf(ctx, &corev1.Pod{}, ctrlclient.InNamespace(w.ns), w.ours(), ctrlclient.GracePeriodSeconds(0))
	_ = typed.DeleteAllOf(ctx, &corev1.Service{}, ctrlclient.InNamespace(w.ns), w.ours()) // the API server has addresses for 254
	_ = typed.Delete(ctx, &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	_ = typed.DeleteAllOf(ctx, &corev1.Node{}, ctrlclient.MatchingLabels{poolKey: w.name})
}

func (w *world) ours() ctrlclient.MatchingLabels {
	return ctrlclient.MatchingLabels{render.LabelGraph: w.name}
}

func (w *world) dgd() *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	Expect(typed.Get(w.ctx, ctrlclient.ObjectKey{Namespace: w.ns, Name: w.name}, dgd)).To(Succeed())
	return dgd
}

// components, worker and frontend are what deployments of scenarios consist of.
type components = graphs.Components

var worker, frontend = graphs.Worker, graphs.Frontend

// deploy creates the world's deployment for a provider.
func (w *world) deploy(provider, level, preferred string, of components) {
	GinkgoHelper()
	annotations := map[string]string{render.AnnotationProvider: provider}
	if w.sets != nil {
		annotations[render.AnnotationWorkload] = specs.LeaderWorkerSet
	}
	made(w.ctx, &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name, Annotations: annotations},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{
			TopologyConstraint: &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: w.name, PackDomain: level, PreferredPackDomain: preferred},
			Services:           of,
		},
	})
	DeferOnFailure(w.describe)
}

// describe reports what one would want to see of a scenario that failed, before anything of it is deleted.
func (w *world) describe(ctx SpecContext) {
	dgd, pods := &nvidiav1alpha1.DynamoGraphDeployment{}, &corev1.PodList{}
	err := errors.Join(
		typed.Get(ctx, ctrlclient.ObjectKey{Namespace: w.ns, Name: w.name}, dgd),
		typed.List(ctx, pods, ctrlclient.InNamespace(w.ns), w.ours()),
	)
	var out strings.Builder
	fmt.Fprintf(&out, "read with error %v, conditions: %+v\n", err, dgd.Status.Conditions)
	for i := range pods.Items {
		p := &pods.Items[i]
		fmt.Fprintf(&out, "pod %s node=%s phase=%s gated=%v selector=%v deleting=%v\n", p.Name, p.Spec.NodeName, p.Status.Phase, render.GateClosed(p), p.Spec.NodeSelector, p.DeletionTimestamp != nil)
	}
	AddReportEntry("deployment "+w.name, out.String(), ReportEntryVisibilityFailureOrVerbose)
}

// patch changes the deployment as a user would.
func (w *world) patch(format string, args ...any) {
	GinkgoHelper()
	Expect(typed.Patch(w.ctx, w.dgd(), ctrlclient.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))).To(Succeed())
}

func (w *world) scale(component string, replicas int32) {
	GinkgoHelper()
	w.patch(`{"spec":{"services":{%q:{"replicas":%d}}}}`, component, replicas)
}

// until looks again and again, and plays the systems that do not run here (see act), until nothing is amiss.
func (w *world) until(what string, look func() error) {
	GinkgoHelper()
	Eventually(w.ctx, func() error {
		if err := w.act(); err != nil {
			return err
		}
		return look()
	}).WithPolling(betweenLooks).Should(Succeed(), "waiting until "+what)
}

// is waits for a condition of the deployment.
func (w *world) is(kind string, status metav1.ConditionStatus, reason string, parts ...string) {
	GinkgoHelper()
	w.until(fmt.Sprintf("%s is %s/%s with %q", kind, status, reason, parts), func() error {
		c := meta.FindStatusCondition(w.dgd().Status.Conditions, kind)
		if c == nil {
			return fmt.Errorf("there is no such condition")
		}
		amiss := slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c.Message, part) })
		if amiss || c.Status != status || c.Reason != reason {
			return fmt.Errorf("it is %s/%s: %s", c.Status, c.Reason, c.Message)
		}
		return nil
	})
}

// serves waits until the deployment as it is wanted is Ready and Placed.
func (w *world) serves() {
	GinkgoHelper()
	w.until("it serves", func() error {
		dgd := w.dgd()
		if dgd.Status.ObservedGeneration != dgd.Generation || dgd.Status.State != nvidiav1alpha1.StateSuccessful ||
			!meta.IsStatusConditionTrue(dgd.Status.Conditions, nvidiav1alpha1.ConditionPlaced) {
			return fmt.Errorf("state %s, %+v", dgd.Status.State, dgd.Status.Conditions)
		}
		return nil
	})
}

// isObserved waits until the deployment's status is of its spec.
func (w *world) isObserved() {
	GinkgoHelper()
	w.until("the status is of the change", func() error {
		if dgd := w.dgd(); dgd.Status.ObservedGeneration != dgd.Generation {
			return fmt.Errorf("it is of generation %d, and the spec is %d", dgd.Status.ObservedGeneration, dgd.Generation)
		}
		return nil
	})
}
