// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// watched is the namespace whose deployments the running operator manages. The other tests have theirs in another one.
const watched = "watched"

// patience is how long a scenario waits for what it expects. It is generous: a slow machine is no failure.
const patience = 3 * time.Minute

// betweenLooks is how long a scenario waits until it plays those who are not there, and looks again.
const betweenLooks = 60 * time.Millisecond

// requeueAfter is short: the gang that cannot be bound waits for it. It is longer than a busy machine takes until the test has bound what was released:
// a gang that is requeued meanwhile is evicted, and its scenario is another one.
const requeueAfter = 20 * time.Second

// lookEvery is short, for tests that switch a peer's API off and on.
const lookEvery = time.Second

// operate runs the whole operator, without admission, until the returned function has ended it.
func operate(config *rest.Config) (stop func(), err error) {
	if err := typed.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := operator.Run(ctx, rights.Of("peers").Record(config, namespace), operator.Options{
			MetricsAddress: "0", ProbeAddress: "0", Namespace: namespace, WatchNamespaces: []string{watched}, QPS: 500, Burst: 1000,
			RequeueAfter: requeueAfter, HoldFor: scheduler.DefaultHoldFor, ReserveDomainAfter: -1, Provider: specs.Auto, LookEvery: lookEvery,
		})
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "the operator ended:", err)
			os.Exit(1)
		}
	}()
	return func() { cancel(); <-done }, nil
}

// world is one scenario's part of the cluster: a deployment, the ClusterTopology (zone, rack, host) it names and the nodes of that, all of one
// name.
type world struct {
	t        *testing.T
	ns, name string
	// refuses: the scheduler binds nothing, and says why.
	refuses string
	// sets plays LeaderWorkerSet where that makes the pods of multinode services; else nil.
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

func newWorld(t *testing.T, name string, hosts ...host) *world {
	t.Helper()
	return newWorldIn(t, watched, name, hosts...)
}

// newWorldIn is a world whose deployment is in a namespace that an operator manages.
func newWorldIn(t *testing.T, ns, name string, hosts ...host) *world {
	t.Helper()
	w := &world{t: t, ns: ns, name: name}
	w.addHosts(hosts...)
	made(t, &grovev1alpha1.ClusterTopology{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: grovev1alpha1.ClusterTopologySpec{
			NodeSelector: map[string]string{poolKey: name},
			Levels:       []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: zoneKey}, {Domain: "rack", Key: rackKey}, {Domain: "host", Key: corev1.LabelHostname}},
		},
	})
	t.Cleanup(w.tearDown)
	return w
}

func (w *world) addHosts(hosts ...host) {
	w.t.Helper()
	for _, h := range hosts {
		room := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("192"), corev1.ResourceMemory: resource.MustParse("2Ti"), corev1.ResourcePods: resource.MustParse("110"),
			"nvidia.com/gpu": *resource.NewQuantity(int64(h.gpus), resource.DecimalSI),
		}
		name := w.name + "-" + h.name
		node := made(w.t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{zoneKey: h.zone, rackKey: h.rack, poolKey: w.name, corev1.LabelHostname: name}},
			Status:     corev1.NodeStatus{Allocatable: room, Capacity: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}},
		})
		if len(node.Spec.Taints) > 0 { // a new node is tainted until its controller has looked at it
			node.Spec.Taints = nil
			if err := typed.Update(w.t.Context(), node); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// tearDown leaves nothing that would take capacity or be looked after: there is no garbage collector here.
func (w *world) tearDown() {
	ctx := context.Background()
	_ = typed.Delete(ctx, &nvidiav1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name}})
	for _, kind := range []string{"PodCliqueSet", "PodGroup"} {
		_ = client.Resource(resources[kind]).Namespace(w.ns).Delete(ctx, w.name, metav1.DeleteOptions{})
	}
	_ = client.Resource(resources[lws.Kind.Kind]).Namespace(w.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: graph.LabelGraph + "=" + w.name})
	for _, kind := range []string{"ClusterTopologyBinding", "Topology"} {
		_ = client.Resource(resources[kind]).Delete(ctx, w.name, metav1.DeleteOptions{})
	}
	_ = typed.DeleteAllOf(ctx, newGroup(), ctrlclient.InNamespace(w.ns), w.ours())
	_ = typed.DeleteAllOf(ctx, &corev1.Pod{}, ctrlclient.InNamespace(w.ns), w.ours(), ctrlclient.GracePeriodSeconds(0))
}

func (w *world) ours() ctrlclient.MatchingLabels {
	return ctrlclient.MatchingLabels{graph.LabelGraph: w.name}
}

func (w *world) dgd() *nvidiav1alpha1.DynamoGraphDeployment {
	w.t.Helper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	if err := typed.Get(w.t.Context(), ctrlclient.ObjectKey{Namespace: w.ns, Name: w.name}, dgd); err != nil {
		w.t.Fatal(err)
	}
	return dgd
}

// services, worker and frontend are what deployments of scenarios consist of.
type services = graphs.Services

var worker, frontend = graphs.Worker, graphs.Frontend

// deploy creates the world's deployment for a provider.
func (w *world) deploy(provider, level, preferred string, of services) {
	w.t.Helper()
	annotations := map[string]string{graph.AnnotationProvider: provider}
	if w.sets != nil {
		annotations[graph.AnnotationWorkload] = specs.LeaderWorkerSet
	}
	made(w.t, &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name, Annotations: annotations},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{
			TopologyConstraint: &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: w.name, PackDomain: level, PreferredPackDomain: preferred},
			Services:           of,
		},
	})
	w.t.Cleanup(w.describe) // it runs before the deployment is deleted
}

// describe logs what one would want to see of a scenario that failed.
func (w *world) describe() {
	if !w.t.Failed() {
		return
	}
	ctx := context.Background()
	dgd, pods := &nvidiav1alpha1.DynamoGraphDeployment{}, &corev1.PodList{}
	err := errors.Join(
		typed.Get(ctx, ctrlclient.ObjectKey{Namespace: w.ns, Name: w.name}, dgd),
		typed.List(ctx, pods, ctrlclient.InNamespace(w.ns), w.ours()),
	)
	w.t.Logf("read with error %v, conditions: %+v", err, dgd.Status.Conditions)
	for i := range pods.Items {
		p := &pods.Items[i]
		w.t.Logf("pod %s node=%s phase=%s gated=%v selector=%v deleting=%v", p.Name, p.Spec.NodeName, p.Status.Phase, graph.GateClosed(p), p.Spec.NodeSelector, p.DeletionTimestamp != nil)
	}
}

// patch changes the deployment as a user would.
func (w *world) patch(format string, args ...any) {
	w.t.Helper()
	if err := typed.Patch(w.t.Context(), w.dgd(), ctrlclient.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) scale(service string, replicas int32) {
	w.t.Helper()
	w.patch(`{"spec":{"services":{%q:{"replicas":%d}}}}`, service, replicas)
}

// until looks again and again, with those at work who are not there (see act), until nothing is amiss.
func (w *world) until(what string, look func() error) {
	w.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.t.Context(), betweenLooks, patience, true, func(context.Context) (bool, error) {
		if last = w.act(); last == nil {
			last = look()
		}
		return last == nil, nil
	})
	if err != nil {
		w.t.Fatalf("waiting until %s: %v", what, last)
	}
}

// is waits for a condition of the deployment.
func (w *world) is(kind string, status metav1.ConditionStatus, reason string, parts ...string) {
	w.t.Helper()
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
	w.t.Helper()
	w.until("it serves", func() error {
		dgd := w.dgd()
		if dgd.Status.ObservedGeneration != dgd.Generation || dgd.Status.State != nvidiav1alpha1.StateSuccessful ||
			!meta.IsStatusConditionTrue(dgd.Status.Conditions, nvidiav1alpha1.ConditionPlaced) {
			return fmt.Errorf("state %s, %+v", dgd.Status.State, dgd.Status.Conditions)
		}
		return nil
	})
}
