// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/indexed"
)

var moveTime = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// movesAt looks for moves of a group with two replicas of two pods, the second of which is on nodes n2 and n3, at a time.
func movesAt(t *testing.T, sg *trellisv1alpha1.ScalingGroup, now time.Time, pod func(*corev1.Pod), node func(*corev1.Node)) observed {
	t.Helper()
	builder := indexed.NewClientBuilder(t)
	for _, name := range []string{"n0", "n1", "n2", "n3"} {
		one := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "n3" && node != nil {
			node(one)
		}
		builder.WithObjects(one)
	}
	var pods []*corev1.Pod
	for ordinal := range int32(2) {
		pods = append(pods, podsOf(sg, ordinal, running, running)...)
	}
	for i, one := range pods {
		one.Spec.NodeName = []string{"n0", "n1", "n2", "n3"}[i]
		if i == 3 && pod != nil {
			pod(one)
		}
	}
	r := &Reconciler{Client: builder.Build(), Leaving: leaving.Rules{Taints: []string{"example.com/gone"}}}
	r.refusals.now = func() time.Time { return now }
	p := &pass{Reconciler: r, observed: observed{sg: sg, replicas: replicasOf(sg, pods, func(*corev1.Pod) bool { return false })}}
	p.lookForMoves(t.Context())
	return p.observed
}

// TestWhyReplicasLeave: replicas leave for their nodes and for evictions that were requested, and no others do.
func TestWhyReplicasLeave(t *testing.T) {
	drained := func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Annotations = true, map[string]string{leaving.AnnotationDrain: ""}
	}
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "example.com/gone", Effect: corev1.TaintEffectNoSchedule}}
	}
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	announced := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: "MaintenancePlanned", Status: corev1.ConditionTrue}}
	}
	tolerant := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	asked := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, leaving.AnnotationEviction, value) }
	}
	eviction := "the eviction of pod g-worker-1-1 was requested"
	elsewhere := func(sg *trellisv1alpha1.ScalingGroup) { sg.Spec.Provider = specs.PodGroup.Name }
	for name, c := range map[string]struct {
		change func(*trellisv1alpha1.ScalingGroup)
		pod    func(*corev1.Pod)
		node   func(*corev1.Node)
		want   string
	}{
		"nothing":          {},
		"only cordoned":    {node: cordoned},
		"drained":          {node: drained, want: "node n3 is drained"},
		"tainted":          {node: tainted, want: "node n3 has the taint example.com/gone"},
		"announced":        {node: announced, want: "node n3 has the condition MaintenancePlanned"},
		"Never":            {change: func(sg *trellisv1alpha1.ScalingGroup) { sg.Spec.Moves = trellisv1alpha1.MovesNever }, node: drained},
		"taint, tolerated": {pod: tolerant, node: tainted, want: "node n3 has the taint example.com/gone"},
		"the scheduler would bring the successor back":        {change: elsewhere, pod: tolerant, node: tainted},
		"the scheduler would bring the successor back, again": {change: elsewhere, node: announced},
		"the scheduler keeps successors off the node":         {change: elsewhere, node: tainted, want: "node n3 has the taint example.com/gone"},
		"eviction":                                      {pod: asked("pod 2026-11-01T12:00:00Z"), want: eviction},
		"eviction with its node":                        {pod: asked("node 2026-12-01T11:59:00Z"), node: cordoned, want: eviction},
		"eviction, and the node is open again":          {pod: asked("node 2026-12-01T11:59:00Z")},
		"eviction that is not repeated":                 {pod: asked("node 2026-12-01T11:50:00Z"), node: cordoned},
		"eviction of a request that no one understands": {pod: asked("soon"), node: cordoned},
	} {
		t.Run(name, func(t *testing.T) {
			sg := group(2, 2)
			if c.change != nil {
				c.change(sg)
			}
			o := movesAt(t, sg, moveTime, c.pod, c.node)
			var want []trellisv1alpha1.ReplicaMove
			if c.want != "" {
				want = []trellisv1alpha1.ReplicaMove{{
					Replica: 1, Why: c.want, Since: metav1.NewTime(moveTime), InPlaceAt: metav1.NewTime(moveTime.Add(DefaultMoveTimeout)),
				}}
			}
			if diff := cmp.Diff(want, sg.Status.Moves); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if o.moved != (c.want != "") || (o.moves > 0) != (c.want != "") {
				t.Errorf("stored: %v, again after %s", o.moved, o.moves)
			}
		})
	}
}

// TestMovesAreOverdue: what is stored stays, until the time is over; whoever waits for its turn gets the full time.
func TestMovesAreOverdue(t *testing.T) {
	drained := func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Annotations = true, map[string]string{leaving.AnnotationDrain: ""}
	}
	at := func(minutes int) metav1.Time {
		return metav1.NewTime(moveTime.Add(time.Duration(minutes) * time.Minute))
	}
	move := func(replica int32, since, inPlaceAt int, inPlace bool) trellisv1alpha1.ReplicaMove {
		return trellisv1alpha1.ReplicaMove{Replica: replica, Why: "node n3 is drained", Since: at(since), InPlaceAt: at(inPlaceAt), InPlace: inPlace}
	}
	for name, c := range map[string]struct {
		stored []trellisv1alpha1.ReplicaMove
		want   trellisv1alpha1.ReplicaMove
		writes bool
	}{
		"in time":                           {[]trellisv1alpha1.ReplicaMove{move(1, -5, 5, false)}, move(1, -5, 5, false), false},
		"overdue":                           {[]trellisv1alpha1.ReplicaMove{move(1, -10, 0, false)}, move(1, -10, 0, true), true},
		"overdue, and stored":               {[]trellisv1alpha1.ReplicaMove{move(1, -11, -1, true)}, move(1, -11, -1, true), false},
		"by a clock that was ahead":         {[]trellisv1alpha1.ReplicaMove{move(1, 100, 110, false)}, move(1, 100, 10, false), true},
		"another one has left":              {[]trellisv1alpha1.ReplicaMove{move(1, -5, 5, false), move(7, -9, 1, false)}, move(1, -5, 10, false), true},
		"another one has left in place":     {[]trellisv1alpha1.ReplicaMove{move(1, -5, 5, false), move(7, -9, -1, true)}, move(1, -5, 5, false), true},
		"another one stays, for it is open": {[]trellisv1alpha1.ReplicaMove{move(0, -9, 1, false), move(1, -5, 5, false)}, move(1, -5, 5, false), true},
	} {
		t.Run(name, func(t *testing.T) {
			sg := group(2, 2)
			sg.Status.Moves = c.stored
			o := movesAt(t, sg, moveTime, nil, drained)
			if diff := cmp.Diff([]trellisv1alpha1.ReplicaMove{c.want}, sg.Status.Moves); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if o.moved != c.writes {
				t.Errorf("written: %v", o.moved)
			}
		})
	}
}

// TestMovesForOthers: a replica that frees a place for another deployment stays until its successor serves, however long that takes, and as
// long as the place is asked for. A drain comes before that.
func TestMovesForOthers(t *testing.T) {
	asked := func(p *corev1.Pod) {
		request := leaving.Eviction{At: moveTime.Add(-time.Minute), For: "team-a/chat"}
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, leaving.AnnotationEviction, request.String())
	}
	drained := func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Annotations = true, map[string]string{leaving.AnnotationDrain: ""}
	}
	for name, c := range map[string]struct {
		at      time.Duration
		node    func(*corev1.Node)
		why     string
		inPlace bool
	}{
		"asked for":             {0, nil, "a place for team-a/chat is freed", false},
		"not asked for anymore": {leaving.EvictionCounts - time.Minute, nil, "", false},
		"drained, too":          {0, drained, "node n3 is drained", true},
	} {
		t.Run(name, func(t *testing.T) {
			sg := group(2, 2)
			sg.Status.Moves = []trellisv1alpha1.ReplicaMove{{
				Replica: 1, Why: "a place for team-a/chat is freed", Since: metav1.NewTime(moveTime.Add(-time.Hour)), InPlaceAt: metav1.NewTime(moveTime),
			}}
			o := movesAt(t, sg, moveTime.Add(c.at), asked, c.node)
			if c.why == "" {
				if len(sg.Status.Moves) > 0 || !o.moved {
					t.Errorf("it moves still: %+v", sg.Status.Moves)
				}
				return
			}
			if m := sg.Status.Moves; len(m) != 1 || m[0].Why != c.why || m[0].InPlace != c.inPlace {
				t.Errorf("%+v, want %q, in place %v", m, c.why, c.inPlace)
			}
			if c.node == nil && o.moves > leaving.EvictionCounts {
				t.Errorf("looked at again after %s only", o.moves)
			}
		})
	}
}

// TestMovesWithoutQuota: where the successor gets no quota, replicas move in place.
func TestMovesWithoutQuota(t *testing.T) {
	sg := group(1, 1)
	replicas := replicasOf(sg, append(podsOf(sg, 0, running), podsOf(sg, 1, gated)...), func(*corev1.Pod) bool { return false })
	if noQuotaForSuccessors(replicas) {
		t.Error("nothing is known of quota")
	}
	replicas[1].noQuota = true
	if !noQuotaForSuccessors(replicas) {
		t.Error("the one that waits gets no quota")
	}
}

// TestMovesAreDescribed says what a move waits for.
func TestMovesAreDescribed(t *testing.T) {
	for name, c := range map[string]struct {
		successor []state
		inPlace   bool
		want      string
	}{
		"no successor yet":      {want: "moving Worker-0: its successor is to be created (node n is drained)"},
		"it is created":         {successor: []state{gated, nil}, want: "moving Worker-0: its successor Worker-1 is created, 1 of 2 pods exist (node n is drained)"},
		"it waits for a place":  {successor: []state{gated, gated}, want: "moving Worker-0: its successor Worker-1 waits for a place (node n is drained)"},
		"it waits for Ready":    {successor: []state{running, unready}, want: "moving Worker-0: its successor Worker-1 waits for Ready, 1 of 2 pods (node n is drained)"},
		"overdue":               {inPlace: true, want: "moving Worker-0: it goes when more than 0 replicas serve, and 1 do (node n is drained)"},
		"an update comes first": {successor: []state{old(running), old(running)}, want: "moving Worker-0: the update that runs comes first (node n is drained)"},
	} {
		t.Run(name, func(t *testing.T) {
			sg := group(1, 2)
			pods := podsOf(sg, 0, running, running)
			if c.successor != nil {
				pods = append(pods, podsOf(sg, 1, c.successor...)...)
			}
			sg.Status.Moves = []trellisv1alpha1.ReplicaMove{{Replica: 0, Why: "node n is drained", InPlace: c.inPlace}}
			status := sg.Status.DeepCopy()
			setMoved(sg, replicasOf(sg, pods, func(*corev1.Pod) bool { return false }), status)
			got := meta.FindStatusCondition(status.Conditions, trellisv1alpha1.ConditionMoved)
			if got == nil || got.Message != c.want || got.Status != metav1.ConditionFalse {
				t.Errorf("%+v, want %s", got, c.want)
			}
			status.Moves = nil
			setMoved(sg, nil, status)
			if len(status.Conditions) > 0 {
				t.Error("the condition stays without moves")
			}
		})
	}
	sg := group(9, 1)
	for ordinal := range int32(9) {
		sg.Status.Moves = append(sg.Status.Moves, trellisv1alpha1.ReplicaMove{Replica: ordinal, Why: strings.Repeat("x", 100)})
	}
	setMoved(sg, nil, &sg.Status)
	if got := sg.Status.Conditions[0].Message; !strings.Contains(got, "Worker-2") || strings.Contains(got, "Worker-3") {
		t.Errorf("more than %d replicas are named: %s", maxMovesNamed, got)
	}
}

// TestNeighbours: when replicas are scaled in, the pods of other replicas in the domain of each are counted.
func TestNeighbours(t *testing.T) {
	builder := indexed.NewClientBuilder(t)
	sg := group(1, 2)
	var pods []*corev1.Pod
	for ordinal := range int32(2) {
		pods = append(pods, podsOf(sg, ordinal, running, running)...)
	}
	add := func(pod *corev1.Pod, node string) {
		pod.Spec.NodeName = node
		builder.WithObjects(pod.DeepCopy())
	}
	for i, pod := range pods {
		add(pod, []string{"a0", "a1", "b0", "b1"}[i])
	}
	other := func(name string, labels map[string]string, ended bool) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}}
		if ended {
			pod.Status.Phase = corev1.PodSucceeded
		}
		return pod
	}
	add(other("of-another-graph", map[string]string{render.LabelGraph: "h"}, false), "b2")
	add(other("of-this-graph", map[string]string{render.LabelGraph: "g"}, false), "b1")
	add(other("ended", map[string]string{render.LabelGraph: "h"}, true), "a2")
	add(other("daemon", nil, false), "a2")
	for _, node := range []string{"a0", "a1", "a2", "b0", "b1", "b2", "c0"} {
		builder.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"rack": node[:1]}}})
	}
	r := &Reconciler{Client: builder.Build()}
	o := observed{sg: sg, replicas: replicasOf(sg, pods, func(*corev1.Pod) bool { return false })}
	if err := (&pass{Reconciler: r, observed: o}).lookForNeighbours(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 2}, []int{o.replicas[0].neighbours, o.replicas[1].neighbours}); diff != "" {
		t.Errorf("pods of others (-want +got):\n%s", diff)
	}
	if got := plan(sg, o.replicas).Remove; len(got) != 1 || got[0].Ordinal != 0 {
		t.Errorf("scaled in is %+v, want the replica that is alone in its rack", got)
	}
}
