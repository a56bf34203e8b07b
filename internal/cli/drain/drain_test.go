// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

func groupOf(name, provider string) trellisv1alpha1.ScalingGroup {
	return trellisv1alpha1.ScalingGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       trellisv1alpha1.ScalingGroupSpec{Graph: "llm", Component: name, Provider: provider},
	}
}

func podOf(group, replica, index, node string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: group + "-" + replica + "-" + index, Labels: map[string]string{
			render.LabelScalingGroup: group, render.LabelReplica: replica, render.LabelPodIndex: index,
		}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// TestBuild lists the replicas with pods on the nodes, what their moves wait for, and those that stay.
func TestBuild(t *testing.T) {
	decode, prefill, grove := groupOf("decode", specs.Gates.Name), groupOf("prefill", specs.Gates.Name), groupOf("other", specs.Grove.Name)
	decode.Status.Moves = []trellisv1alpha1.ReplicaMove{{Replica: 2}, {Replica: 10}}
	decode.Status.Conditions = []metav1.Condition{{
		Type: trellisv1alpha1.ConditionMoved, Status: metav1.ConditionFalse,
		Message: "moving decode-2: its successor decode-3 waits for a place (node n1 is drained); 1 further replicas wait for their turn",
	}}
	prefill.Spec.Moves = trellisv1alpha1.MovesNever
	gone := podOf("decode", "4", "0", "n1")
	gone.Status.Phase = corev1.PodFailed
	got := Build(Observed{
		Nodes: []string{"n1", "n2"}, Groups: []trellisv1alpha1.ScalingGroup{decode, prefill, grove},
		Pods: []corev1.Pod{
			podOf("prefill", "0", "0", "n2"), podOf("decode", "10", "0", "n1"), podOf("decode", "2", "1", "n2"), podOf("decode", "2", "0", "n1"),
			podOf("decode", "3", "0", "n3"), podOf("other", "0", "0", "n1"), podOf("unknown", "0", "0", "n1"), gone,
		},
	})
	want := &Report{Nodes: []string{"n1", "n2"}, Replicas: []Replica{
		{
			Namespace: "ns", Deployment: "llm", Component: "decode", Replica: 2, Pods: 2, Nodes: []string{"n1", "n2"},
			Progress: "its successor decode-3 waits for a place (node n1 is drained)",
		},
		{Namespace: "ns", Deployment: "llm", Component: "decode", Replica: 10, Pods: 1, Nodes: []string{"n1"}, Progress: "waits for its turn"},
		{Namespace: "ns", Deployment: "llm", Component: "other", Pods: 1, Nodes: []string{"n1"}, Stays: "Grove makes its pods"},
		{Namespace: "ns", Deployment: "llm", Component: "prefill", Pods: 1, Nodes: []string{"n2"}, Stays: "trellis.dev/moves is Never"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Moving() != 2 {
		t.Errorf("%d replicas move, want 2", got.Moving())
	}
}

// TestDrain cordons and marks the nodes, waits until no replica is left that moves, and takes the mark away, also when it is interrupted.
func TestDrain(t *testing.T) {
	for name, interrupted := range map[string]bool{"to its end": false, "interrupted": true} {
		t.Run(name, func(t *testing.T) {
			scheme, err := cli.NewScheme()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			group, pod := groupOf("decode", specs.Gates.Name), podOf("decode", "0", "0", "n1")
			looks := 0
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &group, &pod).
				WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
					if _, pods := list.(*corev1.PodList); !pods {
						return c.List(ctx, list, o...)
					}
					node := &corev1.Node{}
					if err := c.Get(ctx, client.ObjectKey{Name: "n1"}, node); err != nil || !node.Spec.Unschedulable ||
						(leaving.Rules{}).Why(node) == "" {
						t.Errorf("the node is %v while the command waits: %v", node.Spec, err)
					}
					switch looks++; {
					case looks == 2 && interrupted:
						cancel()
					case looks == 2:
						if err := c.Delete(ctx, &pod); err != nil {
							t.Error(err)
						}
					}
					return c.List(ctx, list, o...)
				}}).Build()
			out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
			o := &options{Output: cli.NewOutput(genericiooptions.IOStreams{Out: out, ErrOut: errOut}), every: time.Millisecond}
			err = o.drain(ctx, c, []string{"n1"})
			if interrupted != errors.Is(err, cli.Exit(1)) || !interrupted && err != nil {
				t.Errorf("ended with %v", err)
			}
			node := &corev1.Node{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, node); err != nil || !node.Spec.Unschedulable || len(node.Annotations) > 0 {
				t.Errorf("the node is left as %+v, %v: %v", node.Spec, node.Annotations, err)
			}
			want := "node/n1 cordoned\n" +
				"NAMESPACE  DEPLOYMENT  REPLICA   PODS  NODES  STATE\nns         llm         decode-0     1  n1     moves\n"
			if !interrupted {
				want += "no replica of an inference graph is on n1\n"
			}
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			want = ""
			if interrupted {
				want = "interrupted: replicas that have not moved stay. The nodes stay cordoned. To open them:\n  kubectl uncordon n1\n"
			}
			if diff := cmp.Diff(want, errOut.String()); diff != "" {
				t.Errorf("said at the end (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNodesThatDoNotExist are named before anything is changed.
func TestNodesThatDoNotExist(t *testing.T) {
	scheme, err := cli.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}).Build()
	err = exist(t.Context(), c, []string{"n1", "n2"})
	if err == nil || err.Error() != "node n2 not found; list the nodes with kubectl get nodes" {
		t.Errorf("reported %v", err)
	}
}

// TestAllNodesAreCordonedFirst: all nodes are cordoned before a replica may leave the first one.
func TestAllNodesAreCordonedFirst(t *testing.T) {
	scheme, err := cli.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	nodes := []string{"n1", "n2", "n3"}
	builder, marked := fake.NewClientBuilder().WithScheme(scheme), 0
	for _, name := range nodes {
		builder = builder.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	c := builder.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := c.Patch(ctx, o, patch, opts...); err != nil || (leaving.Rules{}).Why(o.(*corev1.Node)) == "" {
				return err
			}
			marked++
			for _, name := range nodes {
				node := &corev1.Node{}
				if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil || !node.Spec.Unschedulable {
					t.Errorf("node %s leaves while %s takes pods: %v", o.GetName(), name, err)
				}
			}
			return nil
		},
	}).Build()
	o := &options{Output: cli.NewOutput(genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}), every: time.Millisecond}
	if err := o.drain(t.Context(), c, nodes); err != nil {
		t.Error(err)
	}
	if marked != len(nodes) {
		t.Errorf("%d nodes are marked, want %d", marked, len(nodes))
	}
}

// TestWaiting tries again when a read fails, and ends when a right is missing or a node is no longer cordoned.
func TestWaiting(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no right"))
	open := (&Observed{Schedulable: []string{"n1", "n2"}}).Cordoned()
	for name, tc := range map[string]struct {
		errs []error
		want error
		said string
	}{
		"a read that fails twice": {errs: []error{errors.New("reset"), errors.New("refused"), nil}, said: "trying again: reset\n"},
		"a missing right":         {errs: []error{nil, forbidden}, want: forbidden},
		"a node that is opened":   {errs: []error{nil, open}, want: open},
		"reads that always fail":  {errs: slices.Repeat([]error{errors.New("reset")}, maxFailures), want: errors.New("reset"), said: "trying again: reset\n"},
	} {
		t.Run(name, func(t *testing.T) {
			errOut, looks := &bytes.Buffer{}, 0
			output := cli.NewOutput(genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: errOut})
			w := &Waiting{Output: &output, Every: time.Microsecond, Show: output.Show}
			err := w.Until(t.Context(), func() (cli.Report, int, error) {
				looks++
				return Build(Observed{}), len(tc.errs) - looks, tc.errs[looks-1]
			})
			if fmt.Sprint(err) != fmt.Sprint(tc.want) || looks != len(tc.errs) || errOut.String() != tc.said {
				t.Errorf("ended with %v after %d reads, and said %q", err, looks, errOut)
			}
		})
	}
	if want := "node n1, n2 is no longer cordoned: the replicas that are left stay"; open.Error() != want {
		t.Error(open)
	}
}

// TestNodesThatWereCordoned are not named as those to open, nor are nodes that no longer exist.
func TestNodesThatWereCordoned(t *testing.T) {
	scheme, err := cli.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Unschedulable: true}}).Build()
	out := &bytes.Buffer{}
	cordoned, err := Cordon(t.Context(), c, []string{"n1", "n2", "n3"}, out)
	if diff := cmp.Diff([]string{"n1"}, cordoned); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff("node/n1 cordoned\nnode/n2 already cordoned\nnode/n3 no longer exists\n", out.String()); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}
