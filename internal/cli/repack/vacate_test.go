// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

func memberOf(sg *trellisv1alpha1.ScalingGroup, replica, index, node string) *corev1.Pod {
	name := sg.Name + "-" + replica + "-" + index
	pod := podWithGPUs(sg.Namespace, name, node)
	pod.Labels = map[string]string{render.LabelScalingGroup: sg.Name, render.LabelReplica: replica, render.LabelPodIndex: index}
	pod.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "trellis.dev/v1alpha1", Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}
	return pod
}

func podWithGPUs(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}},
		}}},
	}
}

// hall is a cluster in which replica 1 has a pod on node n1, which is to be free together with the already cordoned n2, and a pod on n3.
type hall struct {
	*testing.T
	client.Client
	sg          *trellisv1alpha1.ScalingGroup
	moves, same *corev1.Pod
	looks       int
	cancel      context.CancelFunc
	// then changes the cluster at the second look of the command at the pods, after the requests were made.
	then func(*hall)
}

func (h *hall) node(name string) *corev1.Node {
	node := &corev1.Node{}
	if err := h.Get(h.Context(), client.ObjectKey{Name: name}, node); err != nil {
		h.Error(err)
	}
	return node
}

// requested returns the request in a pod.
func (h *hall) requested(pod *corev1.Pod) string {
	live := &corev1.Pod{}
	if err := h.Get(h.Context(), client.ObjectKeyFromObject(pod), live); client.IgnoreNotFound(err) != nil {
		h.Error(err)
	}
	of, _, _ := strings.Cut(live.Annotations[leaving.AnnotationEviction], " ")
	return of
}

func (h *hall) list(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
	if _, pods := list.(*corev1.PodList); !pods || len(o) == 0 {
		return c.List(ctx, list, o...)
	}
	for _, node := range []string{"n1", "n2"} {
		if !h.node(node).Spec.Unschedulable {
			h.Errorf("node %s takes pods while the command waits", node)
		}
	}
	if h.looks++; h.looks == 2 {
		if h.requested(h.moves) != "node" || h.requested(h.same) != "" {
			h.Errorf("requested %q, and on another node %q", h.requested(h.moves), h.requested(h.same))
		}
		h.then(h)
	}
	return c.List(ctx, list, o...)
}

func (h *hall) world(ctx context.Context) (whatif.World, error) {
	pods, nodes := &corev1.PodList{}, &corev1.NodeList{}
	err := errors.Join(h.List(ctx, pods), h.List(ctx, nodes))
	return whatif.World{
		Nodes: pointers(nodes.Items), Pods: pointers(pods.Items), Groups: []*trellisv1alpha1.ScalingGroup{h.sg}, Allocator: allocator.New(),
	}, err
}

// TestVacate cordons the nodes of the domain before any move is requested, requests the moves of the report alone, and ends when no GPU of
// the nodes is in use. A command that does not reach its end removes its requests, and says what it leaves.
func TestVacate(t *testing.T) {
	const (
		opened = "The nodes stay cordoned. To open them:\n  kubectl uncordon n1\n"
		shown  = "node/n1 cordoned\nnode/n2 already cordoned\n" +
			"NAMESPACE  DEPLOYMENT  REPLICA   PODS  NODES  STATE\nns         llm         Worker-1     1  n1     moves\n"
	)
	leave := func(h *hall) {
		if err := h.Delete(h.Context(), h.moves); err != nil {
			h.Error(err)
		}
	}
	for name, tc := range map[string]struct {
		before    func(*hall)
		then      func(*hall)
		silent    bool
		out, said string
		err       string
	}{
		"to its end": {then: leave, out: shown, said: "No GPU is in use in a/r2. " + opened},
		"interrupted": {
			then: func(h *hall) { h.cancel() }, out: shown, err: "exit code 1", said: "interrupted: replicas that have not moved stay. " + opened,
		},
		"without the operator": {
			silent: true, err: "exit code 3", said: "nothing is changed: no replica moves while the operator is not running\n",
		},
		"pods that cordoned nodes take again": {
			before: func(h *hall) {
				h.moves.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			},
			err: "pods of ns/llm Worker-1 tolerate the taint node.kubernetes.io/unschedulable, so cordoned nodes take them again: " +
				"nothing is changed; kubectl trellis drain keeps them off the nodes",
		},
		"a pod since the plan": {
			before: func(h *hall) {
				if err := h.Create(h.Context(), podWithGPUs("other", "late", "n2")); err != nil {
					h.Error(err)
				}
			},
			out: "node/n1 cordoned\nnode/n2 already cordoned\n", said: opened,
			err: "the cluster has changed since the plan, and nothing has moved: pod other/late uses GPUs of node n2; try again",
		},
		"a node is opened": {
			then: func(h *hall) {
				node := h.node("n1")
				node.Spec.Unschedulable = false
				if err := h.Update(h.Context(), node); err != nil {
					h.Error(err)
				}
			},
			out: shown, said: opened, err: "node n1 is no longer cordoned: the replicas that are left stay",
		},
		"a pod that is still there": {
			then: func(h *hall) {
				leave(h)
				if err := h.Create(h.Context(), podWithGPUs("other", "late", "n1")); err != nil {
					h.Error(err)
				}
			},
			out: shown, said: opened, err: "pod other/late uses GPUs of node n1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := cli.NewScheme()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm-worker", UID: "sg"}}
			sg.Spec.Graph, sg.Spec.Component, sg.Spec.Provider = "llm", "Worker", specs.Gates.Name
			h := &hall{T: t, sg: sg, cancel: cancel, then: tc.then, moves: memberOf(sg, "1", "0", "n1"), same: memberOf(sg, "1", "1", "n3")}
			h.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(sg, h.same, memberOf(sg, "0", "0", "n3"),
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}},
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Unschedulable: true}}).
				WithInterceptorFuncs(interceptor.Funcs{List: h.list}).Build()
			if tc.before != nil {
				tc.before(h)
			}
			if err := h.Create(ctx, h.moves); err != nil {
				t.Fatal(err)
			}
			out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
			o := &options{
				Output: cli.NewOutput(genericiooptions.IOStreams{Out: out, ErrOut: errOut}), every: time.Millisecond, reread: h.world,
				operator: &live.Heartbeat{Silent: tc.silent},
			}
			world, err := h.world(ctx)
			if err != nil {
				t.Fatal(err)
			}
			err = o.vacate(ctx, h, &world, &Report{Level: "rack", Domains: []string{"a/r2"}, nodes: []string{"n1", "n2"},
				Moves: []Move{{Namespace: "ns", Name: "llm", Component: "Worker", Replica: 1}}})
			if got := fmt.Sprint(err); err == nil && tc.err != "" || err != nil && got != tc.err {
				t.Errorf("ended with %q, want %q", got, tc.err)
			}
			if diff := cmp.Diff(tc.out, out.String()); diff != "" {
				t.Errorf("showed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.said, errOut.String()); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			if left := h.requested(h.moves); left != "" {
				t.Errorf("the request %q is left", left)
			}
			if tc.out == "" && h.node("n1").Spec.Unschedulable {
				t.Error("a node is cordoned")
			}
		})
	}
}

// TestRequestsOfOthers stay as they are.
func TestRequestsOfOthers(t *testing.T) {
	scheme, err := cli.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	of := func(name string, request leaving.Eviction) *corev1.Pod {
		pod := podWithGPUs("ns", name, "n1")
		pod.Annotations = map[string]string{leaving.AnnotationEviction: request.String()}
		return pod
	}
	evicted, place := of("evicted", leaving.Eviction{At: now}), of("place", leaving.Eviction{At: now, For: "ns/big"})
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(evicted, place).Build()
	r := &requests{Client: c}
	if err := errors.Join(r.repeat(t.Context(), []*corev1.Pod{evicted, place}, now), r.withdraw(t.Context())); err != nil {
		t.Error(err)
	}
	for _, pod := range []*corev1.Pod{evicted, place} {
		live := &corev1.Pod{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), live); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(pod.Annotations, live.Annotations); diff != "" {
			t.Errorf("pod %s (-want +got):\n%s", pod.Name, diff)
		}
	}
}

// TestNodesOfDomains: nodes outside of the topology's selector belong to no domain.
func TestNodesOfDomains(t *testing.T) {
	node := func(name, rack, pool string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "a", "rack": rack, "pool": pool}}}
	}
	world := &whatif.World{Nodes: []*corev1.Node{node("n10", "r1", "gpu"), node("n2", "r1", "gpu"), node("n1", "r2", "gpu"), node("n3", "r1", "cpu")}}
	levels := topology.Levels{{Domain: "zone", Key: "zone"}, {Domain: "rack", Key: "rack"}}
	for level, want := range map[int][]string{0: nil, 1: {"n2", "n10"}} {
		if diff := cmp.Diff(want, nodesIn(world, levels, map[string]string{"pool": "gpu"}, level, []string{"a/r1"})); diff != "" {
			t.Errorf("level %d (-want +got):\n%s", level, diff)
		}
	}
}

// TestNext is the command that makes the moves that a report shows.
func TestNext(t *testing.T) {
	o := &options{free: "rack=2", topology: "hall", maxGPUs: 16}
	if got := o.next(&Report{Level: "rack"}); got != "kubectl trellis repack --free rack=2 --topology hall --max-gpus 16 --apply" {
		t.Error(got)
	}
	o = &options{}
	if got := o.next(&Report{Namespace: "ns", Name: "llm"}); got != "kubectl trellis repack --for llm -n ns --apply" {
		t.Error(got)
	}
}
