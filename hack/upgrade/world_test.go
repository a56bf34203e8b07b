// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	namespace = "team"
	topology  = "datacenter"
	rackKey   = "topology.trellis.dev/rack"
)

// world is a sandbox with an operator, and its deployments.
type world struct {
	cluster *sandbox.Sandbox
	c       client.WithWatch
	// wants are the numbers of pods of Ready deployments; 0 for a deployment without capacity.
	wants map[string]int

	mu      sync.Mutex
	deleted map[types.UID]string
}

// newWorld installs a version of the operator on a sandbox, with some more flags.
func newWorld(ctx context.Context, name string, version sandbox.Release, shape simulated.Shape, flags ...string) *world {
	GinkgoHelper()
	w := &world{wants: map[string]int{}, deleted: map[types.UID]string{}}
	var err error
	w.cluster, err = sandbox.Up(ctx, sandbox.Options{
		Name: name, Dir: filepath.Join(GinkgoT().TempDir(), "s"), Root: root(),
		Shape:    shape,
		Operator: true, Manifests: version.Manifests, ManagerBinary: version.ManagerBinary, Manager: sandbox.ManagerOptions{Args: flags},
	})
	Expect(err).NotTo(HaveOccurred(), "bringing the sandbox up")
	DeferCleanup(w.cluster.Down, NodeTimeout(suite.Timeout()))
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			log := w.cluster.LogFile(sandbox.DefaultManager)
			AddReportEntry("the end of "+log, proc.Tail(log, 60))
		}
	})
	config, err := w.cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	w.c = suite.Connect(ctx, config, operator.NewScheme())
	Expect(w.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	Expect(w.c.Create(ctx, &grovev1alpha1.ClusterTopology{
		ObjectMeta: metav1.ObjectMeta{Name: topology},
		Spec: grovev1alpha1.ClusterTopologySpec{Levels: []grovev1alpha1.TopologyLevel{
			{Domain: "zone", Key: corev1.LabelTopologyZone}, {Domain: "rack", Key: rackKey}, {Domain: "host", Key: corev1.LabelHostname},
		}},
	})).To(Succeed())
	w.watchDeletes()
	return w
}

// watchDeletes records deleted pods until the spec ends.
func (w *world) watchDeletes() {
	GinkgoHelper()
	watching, end := context.WithCancel(context.Background())
	pods, err := w.c.Watch(watching, &corev1.PodList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range pods.ResultChan() {
			pod, is := event.Object.(*corev1.Pod)
			if is && (event.Type == watch.Deleted || pod.DeletionTimestamp != nil) {
				w.mu.Lock()
				w.deleted[pod.UID] = pod.Name
				w.mu.Unlock()
			}
		}
	}()
	DeferCleanup(func() { end(); <-ended })
}

// lost returns the names of the pods in before that were deleted.
func (w *world) lost(before map[types.UID]string) (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, name := range before {
		if _, deleted := w.deleted[uid]; deleted {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// create creates a deployment that is packed in one zone, each replica in one rack, with some changes.
func (w *world) create(
	ctx context.Context, name string, components graphs.Components, changes ...func(*nvidiav1alpha1.DynamoGraphDeployment),
) {
	GinkgoHelper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	dgd.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: topology, PackDomain: "zone"}
	dgd.Spec.Services = components
	for _, change := range changes {
		change(dgd)
	}
	// A webhook that answers late on a busy machine is tried again. The late answer may have been stored.
	Eventually(ctx, func() error { return client.IgnoreAlreadyExists(w.c.Create(ctx, dgd.DeepCopy())) }).Should(Succeed())
	for _, s := range components {
		nodes := int32(1)
		if s.Multinode != nil {
			nodes = s.Multinode.NodeCount
		}
		w.wants[name] += int(*s.Replicas * nodes)
	}
}

// scale sets the replicas of a component.
func (w *world) scale(ctx context.Context, name, component string, replicas, pods int) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"spec":{"services":{%q:{"replicas":%d}}}}`, component, replicas)
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Eventually(ctx, func() error { return w.c.Patch(ctx, dgd, client.RawPatch(types.MergePatchType, []byte(patch))) }).Should(Succeed())
	w.wants[name] = pods
}

// lose deletes a pod as a drain would.
func (w *world) lose(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(w.c.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).To(Succeed())
}

func (w *world) pods(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(w.c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	return list.Items
}

// bound returns the pods with a node, by UID, except those of some deployments.
func (w *world) bound(ctx context.Context, but ...string) map[types.UID]string {
	out := map[types.UID]string{}
	for _, pod := range w.pods(ctx) {
		if pod.Spec.NodeName != "" && !slices.Contains(but, pod.Labels[render.LabelGraph]) {
			out[pod.UID] = pod.Name
		}
	}
	return out
}

// settled waits until each deployment has all its pods bound and Ready, each graph in one zone and each replica in one rack.
func (w *world) settled(ctx context.Context) {
	GinkgoHelper()
	racks, zones := w.domains(ctx, rackKey), w.domains(ctx, corev1.LabelTopologyZone)
	Eventually(func() error {
		ready, at := map[string]int{}, map[string]string{}
		for _, pod := range w.pods(ctx) {
			graph, node := pod.Labels[render.LabelGraph], pod.Spec.NodeName
			if node == "" || pod.DeletionTimestamp != nil || !render.PodReady(&pod) {
				continue
			}
			ready[graph]++
			domains := map[string]string{"deployment " + graph: zones[node]}
			if graph != "waits" { // that graph is packed only in a zone
				domains["replica "+pod.Labels[render.LabelScalingGroup]+"/"+pod.Labels[render.LabelReplica]] = racks[node]
			}
			for what, domain := range domains {
				if other, known := at[what]; known && other != domain {
					return fmt.Errorf("%s is in %s and in %s", what, other, domain)
				}
				at[what] = domain
			}
		}
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(w.wants)) {
			if ready[name] != w.wants[name] {
				errs = append(errs, fmt.Errorf("deployment %s has %d Ready pods, want %d", name, ready[name], w.wants[name]))
			}
		}
		return errors.Join(errs...)
	}, suite.Timeout()).WithContext(ctx).Should(Succeed())
}

// domains are the values of a label of nodes, by node.
func (w *world) domains(ctx context.Context, key string) map[string]string {
	GinkgoHelper()
	out, nodes := map[string]string{}, &corev1.NodeList{}
	Expect(w.c.List(ctx, nodes)).To(Succeed())
	for i := range nodes.Items {
		out[nodes.Items[i].Name] = nodes.Items[i].Labels[key]
	}
	return out
}

// becomes replaces the operator.
func (w *world) becomes(ctx context.Context, version sandbox.Release) {
	GinkgoHelper()
	Expect(w.cluster.ReplaceOperator(ctx, version)).To(Succeed())
}

// dgd returns a deployment with only its name.
func (w *world) dgd(name string) *nvidiav1alpha1.DynamoGraphDeployment {
	return &nvidiav1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}
