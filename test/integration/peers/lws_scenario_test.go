// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// lwsWorld has the operator at work on one namespace of the API server. No other controller is there: the spec plays LeaderWorkerSet, the
// StatefulSets, the garbage collector, the scheduler and the kubelets.
type lwsWorld struct {
	// ctx ends with the spec.
	ctx context.Context
	ns  string
	// held are pods that LeaderWorkerSet has not come to make yet.
	held map[string]bool
	// selector of the sets that are looked after; "" for all of the namespace.
	selector string
}

func newLWSWorld(ctx context.Context, ns string) *lwsWorld {
	GinkgoHelper()
	w := &lwsWorld{ctx: ctx, ns: ns, held: map[string]bool{}}
	made(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	topology := providertest.Topology()
	topology.UID, topology.Name = "", ns
	for i := range topology.Spec.Levels[:3] {
		topology.Spec.Levels[i].Key = ns + "." + topology.Spec.Levels[i].Key // no other spec's nodes
	}
	made(ctx, topology)
	for rack := range 3 {
		for host := range 3 {
			w.node(rack, host)
		}
	}
	w.operate()
	return w
}

func (w *lwsWorld) node(rack, host int) {
	GinkgoHelper()
	name := fmt.Sprintf("%s-%d-%d", w.ns, rack, host)
	node := made(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, w.ns + ".example.com/zone": "z", w.ns + ".example.com/block": "b", w.ns + ".example.com/rack": fmt.Sprintf("r%d", rack),
	}}})
	room := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("50"), corev1.ResourceCPU: resource.MustParse("64")}
	node.Status.Capacity, node.Status.Allocatable = room, room
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.must(typed.Status().Update(w.ctx, node))
	node.Spec.Taints = nil
	w.must(typed.Update(w.ctx, node))
}

// operate runs an operator for the namespace until the spec ends.
func (w *lwsWorld) operate() {
	running, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- operator.Run(running, rights.Of("peers").Record(restConfig, namespace), operator.Options{
			MetricsAddress: "0", ProbeAddress: "0", Namespace: w.ns, WatchNamespaces: []string{w.ns}, QPS: 1000, Burst: 1000, Provider: specs.Auto,
			RequeueAfter: time.Minute, HoldFor: time.Minute, ReserveDomainAfter: time.Hour, ReserveDomainFor: time.Hour, LookEvery: lookEvery,
			NewClient: ctrl.New, // so that one operator may follow another in this program
		})
	}()
	DeferCleanup(func() {
		end()
		Expect(<-ended).To(Succeed(), "the operator")
	})
}

func (w *lwsWorld) must(err error) {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
}

// until plays all that does not run here again and again until what is seen is what is wanted.
func (w *lwsWorld) until(title, want string, see func() string) {
	GinkgoHelper()
	By(title)
	Eventually(w.ctx, func() string {
		w.play()
		return see()
	}).WithPolling(betweenLooks).Should(Equal(want), title)
}

func (w *lwsWorld) pods() []*corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	w.must(typed.List(w.ctx, list, ctrl.InNamespace(w.ns)))
	var out []*corev1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// sets are the names of the sets, with their revision; "!" while one is on its way out.
func (w *lwsWorld) sets() string {
	var out []string
	for _, object := range w.objects() {
		name := object.GetName()
		if object.GetDeletionTimestamp() != nil {
			name += "!"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// replicas has each replica of Decode with how many of its pods are released, bound and ready, and the racks they are pinned to.
func (w *lwsWorld) replicas() string {
	type replica struct {
		pods, open, bound int
		racks             map[string]bool
	}
	replicas := map[string]*replica{}
	for _, pod := range w.pods() {
		if pod.Labels[render.LabelComponent] != "Decode" {
			continue
		}
		r := replicas[pod.Labels[render.LabelReplica]]
		if r == nil {
			r = &replica{racks: map[string]bool{}}
			replicas[pod.Labels[render.LabelReplica]] = r
		}
		r.pods++
		if render.GateClosed(pod) {
			continue
		}
		r.open++
		r.racks[pod.Spec.NodeSelector[w.ns+".example.com/rack"]] = true
		if pod.Spec.NodeName != "" {
			r.bound++
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(replicas)) {
		r := replicas[name]
		out = append(out, fmt.Sprintf("%s: %d pods, %d released, %d bound, %d racks", name, r.pods, r.open, r.bound, len(r.racks)))
	}
	return strings.Join(out, "; ")
}

func (w *lwsWorld) deployment() *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	w.must(typed.Get(w.ctx, types.NamespacedName{Namespace: w.ns, Name: "g"}, dgd))
	return dgd
}

func (w *lwsWorld) change(edit func(*nvidiav1alpha1.DynamoGraphDeployment)) {
	GinkgoHelper()
	dgd := w.deployment()
	before := dgd.DeepCopy()
	edit(dgd)
	w.must(typed.Patch(w.ctx, dgd, ctrl.MergeFrom(before)))
}

func (w *lwsWorld) condition(kind string) string {
	GinkgoHelper()
	c := meta.FindStatusCondition(w.deployment().Status.Conditions, kind)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// counts are the replicas of Decode as the deployment's status has them.
func (w *lwsWorld) counts() string {
	s := w.deployment().Status.Services["Decode"]
	return fmt.Sprintf("%d there, %d updated, %d ready", s.Replicas, s.UpdatedReplicas, ptr.Deref(s.ReadyReplicas, -1))
}

func (w *lwsWorld) set(name string) *unstructured.Unstructured {
	GinkgoHelper()
	object, err := client.Resource(resources[lws.Kind.Kind]).Namespace(w.ns).Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	return object
}

func (w *lwsWorld) group() *trellisv1alpha1.ScalingGroup {
	GinkgoHelper()
	sg := &trellisv1alpha1.ScalingGroup{}
	w.must(typed.Get(w.ctx, types.NamespacedName{Namespace: w.ns, Name: "g-decode"}, sg))
	return sg
}

// wanted is the set of a replica as it has to be on the API server.
func (w *lwsWorld) wanted(ordinal int32) *unstructured.Unstructured {
	GinkgoHelper()
	sg := w.group()
	set := lws.For(sg).Render(ordinal, nil)
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	object, err := external.Object(set)
	w.must(err)
	return object
}
