// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

func memberOf(sg *trellisv1alpha1.ScalingGroup, replica, index, node string) *corev1.Pod {
	name := sg.Name + "-" + replica + "-" + index
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: sg.Namespace, Name: name, UID: types.UID(name),
			Labels: map[string]string{render.LabelScalingGroup: sg.Name, render.LabelReplica: replica, render.LabelPodIndex: index},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "trellis.dev/v1alpha1", Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// TestVacate cordons the nodes of the domain before any move is requested, requests the moves of the report alone, and ends when the replica
// has left the nodes. An interrupted command removes its requests.
func TestVacate(t *testing.T) {
	for name, interrupted := range map[string]bool{"to its end": false, "interrupted": true} {
		t.Run(name, func(t *testing.T) {
			scheme, err := cli.NewScheme()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm-worker", UID: "sg"}}
			sg.Spec.Graph, sg.Spec.Component, sg.Spec.Provider = "llm", "Worker", specs.Gates.Name
			moves, same, other := memberOf(sg, "1", "0", "n1"), memberOf(sg, "1", "1", "n3"), memberOf(sg, "0", "0", "n2")
			requested := func(c client.Reader, pod *corev1.Pod) bool {
				live := &corev1.Pod{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), live); err != nil {
					t.Error(err)
				}
				request, is := leaving.EvictionOf(live)
				return is && request.WithNode
			}
			looks := 0
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sg, moves, same, other,
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}).
				WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
					if _, pods := list.(*corev1.PodList); !pods {
						return c.List(ctx, list, o...)
					}
					for _, node := range []string{"n1", "n2"} {
						live := &corev1.Node{}
						if err := c.Get(ctx, client.ObjectKey{Name: node}, live); err != nil || !live.Spec.Unschedulable {
							t.Errorf("node %s is not cordoned: %v", node, err)
						}
					}
					if looks++; looks == 2 {
						if !requested(c, moves) || !requested(c, same) || requested(c, other) {
							t.Errorf("requested: %t and %t, and of a replica that stays: %t",
								requested(c, moves), requested(c, same), requested(c, other))
						}
						if interrupted {
							cancel()
						} else if err := c.Delete(ctx, moves); err != nil {
							t.Error(err)
						}
					}
					return c.List(ctx, list, o...)
				}}).Build()
			out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
			o := &options{Output: cli.NewOutput(genericiooptions.IOStreams{Out: out, ErrOut: errOut}), every: time.Millisecond}
			report := &Report{Level: "rack", Domains: []string{"a/r2"}, nodes: []string{"n1", "n2"},
				Moves: []Move{{Namespace: "ns", Name: "llm", Component: "Worker", Replica: 1}}}
			err = o.vacate(ctx, c, report)
			if interrupted != errors.Is(err, cli.Exit(1)) || !interrupted && err != nil {
				t.Errorf("ended with %v", err)
			}
			want := "node/n1 cordoned\nnode/n2 cordoned\n" +
				"NAMESPACE  DEPLOYMENT  REPLICA   PODS  NODES  STATE\nns         llm         Worker-1     1  n1     moves\n"
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			want = "1 replica moved. The nodes of a/r2 stay cordoned. To open them:\n  kubectl uncordon n1 n2\n"
			if interrupted {
				want = "interrupted: the nodes stay cordoned, and replicas that have not moved stay; kubectl uncordon opens the nodes\n"
				live := &corev1.Pod{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(moves), live); err != nil || len(live.Annotations) > 0 {
					t.Errorf("the pod is left with %v: %v", live.Annotations, err)
				}
			}
			if diff := cmp.Diff(want, errOut.String()); diff != "" {
				t.Errorf("said at the end (-want +got):\n%s", diff)
			}
		})
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
