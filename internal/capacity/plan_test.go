// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// pods are so many pods with GPUs.
func pods(n int, gpus string) (out []*corev1.Pod) {
	for range n {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
		if gpus != "0" {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}
		}
		out = append(out, pod)
	}
	return out
}

// waits is a gang of so many pods with 8 GPUs, which exist for an hour.
func waits(name string, n int) Gang {
	return Gang{
		Graph: types.NamespacedName{Namespace: "ns", Name: name}, UID: types.UID(name), Name: "the base gang", Kind: KindPlaceholders,
		Since: start.Add(-time.Hour), Sets: SetsOf(pods(n, "8"), Where{}),
	}
}

// world has what a Planner asks for: objects come into being at once.
type world struct {
	planner      Planner
	now          time.Time
	gangs        []Gang
	placeholders []Placeholder
	requests     []Request
	unplanned    map[types.UID]bool
}

func newWorld(maxPods int, gangs ...Gang) *world {
	return &world{planner: Planner{Limits: Limits{MaxPods: maxPods}}, now: start, gangs: gangs}
}

// step plans and does what is planned.
func (w *world) step() Steps {
	s := w.planner.Plan(Observation{Gangs: w.gangs, Placeholders: w.placeholders, Requests: w.requests, Unplanned: w.unplanned}, w.now)
	for _, one := range s.DeletePlaceholders {
		w.placeholders = slices.DeleteFunc(w.placeholders, func(p Placeholder) bool { return p.Name == one.Name })
	}
	for _, one := range s.DeleteRequests {
		w.requests = slices.DeleteFunc(w.requests, func(r Request) bool { return r.Name == one.Name })
	}
	for i := range s.Create {
		ask := &s.Create[i]
		for _, at := range ask.Missing {
			w.placeholders = append(w.placeholders, Placeholder{Name: ask.Placeholder(at, "own", "", nil).Name, Ask: ask.Name, Graph: ask.Gang.UID, Created: w.now})
		}
		if ask.Gang.Kind == KindProvisioningRequest {
			request, _ := ask.Request(make([][]string, len(ask.Gang.Sets)))
			one := request.Observed()
			one.Created = w.now
			w.requests = append(w.requests, one)
		}
	}
	return s
}

// says is what a step comes to, in a line.
func says(s Steps) string {
	var parts []string
	for _, ask := range s.Create {
		parts = append(parts, fmt.Sprintf("+%s %d", ask.Gang.Graph.Name, len(ask.Missing)))
	}
	if n := len(s.DeletePlaceholders) + len(s.DeleteRequests); n > 0 {
		parts = append(parts, fmt.Sprintf("-%d", n))
	}
	for _, note := range s.Refused {
		parts = append(parts, "refused "+note.Gang.Graph.Name+": "+note.Why)
	}
	for _, note := range s.GivenUp {
		parts = append(parts, "given up "+note.Gang.Graph.Name+": "+note.Why)
	}
	return strings.Join(parts, "; ")
}

func (w *world) expect(t *testing.T, what, want string) {
	t.Helper()
	if diff := cmp.Diff(want, says(w.step())); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAskAndItsEnd(t *testing.T) {
	w := newWorld(64, waits("a", 2))
	w.expect(t, "it waits", "+a 2")
	w.expect(t, "it is asked for", "")
	w.placeholders = w.placeholders[1:]
	w.expect(t, "a placeholder is lost", "+a 1")
	w.gangs = nil
	w.expect(t, "it is placed", "-2")
	w.expect(t, "nothing is left", "")
}

// A gang that no node comes for is not asked for without end: each pause is twice as long as the one before, up to an hour.
func TestPauses(t *testing.T) {
	w := newWorld(64, waits("a", 1))
	for _, pause := range []string{"5m0s", "10m0s", "20m0s", "40m0s", "1h0m0s", "1h0m0s"} {
		w.expect(t, "it waits", "+a 1")
		w.now = w.now.Add(Patience - time.Second)
		w.expect(t, "it still waits", "")
		w.now = w.now.Add(time.Second)
		w.expect(t, "patience ends", "-1; given up a: it was not placed within 15m0s; it is asked for again after "+pause)
		d, err := time.ParseDuration(pause)
		if err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(d - time.Second)
		w.expect(t, "the pause", "")
		if next := w.step().Next; !next.Equal(w.now.Add(time.Second)) {
			t.Errorf("the next look is at %s, want in a second", next.Sub(w.now))
		}
		w.now = w.now.Add(time.Second)
	}
}

// Another shape is another ask, at once; the same gang that is recreated for a moment is not.
func TestPauseOfOneShape(t *testing.T) {
	w := newWorld(64, waits("a", 1))
	w.step()
	w.now = w.now.Add(Patience)
	w.step()
	gangs := w.gangs
	w.gangs = nil
	w.expect(t, "its pods are being recreated", "")
	w.gangs = gangs
	w.expect(t, "they are back", "")
	w.gangs = []Gang{waits("a", 2)}
	w.expect(t, "it has another pod", "+a 2")
}

// What is remembered of gangs ends with them; of those that no node came for, an hour after the pause.
func TestAsksAreForgotten(t *testing.T) {
	w := newWorld(64, waits("a", 1), waits("b", 1))
	w.step()
	w.gangs = w.gangs[:1]
	w.now = w.now.Add(Patience)
	w.step()
	if n := len(w.planner.asks); n != 1 {
		t.Errorf("%d gangs are remembered, want the one that waits", n)
	}
	w.gangs = nil
	w.now = w.now.Add(FirstPause + LongestPause)
	if w.step(); len(w.planner.asks) != 1 {
		t.Error("the pause is forgotten too early")
	}
	w.now = w.now.Add(time.Second)
	if w.step(); len(w.planner.asks) != 0 {
		t.Errorf("%v are remembered", w.planner.asks)
	}
}

func TestBound(t *testing.T) {
	w := newWorld(4, waits("a", 3), waits("b", 2), waits("c", 1), waits("d", 5))
	for i := range w.gangs {
		w.gangs[i].Since = w.gangs[i].Since.Add(time.Duration(i) * time.Second)
	}
	large := "refused d: it has 5 pods, and at most 4 are asked for at once (--capacity-max-pods)"
	w.expect(t, "a comes first, and c does not overtake b", "+a 3; "+large)
	w.gangs = w.gangs[1:]
	w.expect(t, "a is placed", "+b 2; +c 1; -3; "+large)
	urgent := waits("e", 2)
	urgent.Priority = 1000
	w.gangs = append(w.gangs, urgent)
	w.expect(t, "what is asked for keeps its share", large)
	w.gangs = slices.DeleteFunc(w.gangs, func(g Gang) bool { return g.Graph.Name == "b" })
	w.gangs = append(w.gangs, waits("f", 1))
	w.expect(t, "the higher priority comes before the older one", "+e 2; +f 1; -2; "+large)
}

func TestNotAskedFor(t *testing.T) {
	never := &placement.Never{Resource: "nvidia.com/gpu", Need: 16, Have: 8}
	shape, err := ParseShape("cpu=100, nvidia.com/gpu=8")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*Gang)
		shapes []corev1.ResourceList
		want   string
	}{
		"it suits":                       {func(*Gang) {}, nil, "+a 1"},
		"its pods are new":               {func(g *Gang) { g.Since = start.Add(-Settle + time.Second) }, nil, ""},
		"no kind of that name":           {func(g *Gang) { g.Kind = "Nodes" }, nil, `refused a: the annotation trellis.dev/capacity-request is "Nodes"; use one of Placeholders, ProvisioningRequest, None`},
		"barred":                         {func(g *Gang) { g.Bars = "no" }, nil, "refused a: no"},
		"more than the largest node":     {func(g *Gang) { g.Never = never }, nil, "refused a: no host has 16 nvidia.com/gpu: the largest has 8; name larger nodes that can be added in --node-shapes"},
		"no node has the resource":       {func(g *Gang) { g.Never = &placement.Never{Resource: "nvidia.com/gpu", Need: 16} }, nil, "+a 1"},
		"no node has all of it":          {func(g *Gang) { g.Never = &placement.Never{Pods: 1} }, nil, "refused a: no host has all that one of its pods requests: 1 pod x 8 nvidia.com/gpu; name larger nodes that can be added in --node-shapes"},
		"no domain has as many hosts":    {func(g *Gang) { g.Never = &placement.Never{Level: "rack", Holds: 4} }, nil, "+a 1"},
		"a node can be added":            {func(g *Gang) { g.Never = never }, []corev1.ResourceList{{"cpu": resource.MustParse("8")}, shape}, "+a 1"},
		"no node that can be added does": {func(g *Gang) { g.Sets = SetsOf(pods(1, "9"), Where{}) }, []corev1.ResourceList{shape}, "refused a: no node of --node-shapes holds 1 pod x 9 nvidia.com/gpu"},
		"nor one without the resource":   {func(*Gang) {}, []corev1.ResourceList{{"cpu": resource.MustParse("8")}}, "refused a: no node of --node-shapes holds 1 pod x 8 nvidia.com/gpu"},
	} {
		w := newWorld(64, waits("a", 1))
		w.planner.Shapes = tc.shapes
		tc.change(&w.gangs[0])
		w.expect(t, name, tc.want)
	}
}

// A placeholder on a node that was there before brings no node. One on a node that came for its ask stays.
func TestPlaceholdersOnOlderNodes(t *testing.T) {
	w := newWorld(64, waits("a", 2))
	w.step()
	w.placeholders[0].NodeCreated = start.Add(-time.Minute)
	w.placeholders[1].NodeCreated = start.Add(time.Minute)
	w.expect(t, "one is on an older node", "-1")
	w.expect(t, "it is created again", "+a 1")
	w.placeholders[0].Ended = true
	w.expect(t, "one has ended", "-1")
	for range 6 {
		w.expect(t, "it is created again", "+a 1")
		w.placeholders = w.placeholders[1:]
	}
	w.expect(t, "too many were lost", "-1; given up a: 7 placeholders were lost; it is asked for again after 5m0s")
}

// Placeholders that are deleted before another gang of the deployment is released are created again, and do not end what is asked for.
func TestPlaceholdersClearedForOthers(t *testing.T) {
	w := newWorld(64, waits("a", 1))
	w.step()
	w.expect(t, "it is asked for", "")
	for range 10 {
		one := w.placeholders[0]
		w.planner.Cleared(one.Ask, one.Name)
		w.placeholders = nil
		w.expect(t, "it is created again", "+a 1")
	}
	for range 3 {
		w.placeholders = nil
		w.expect(t, "it is lost", "+a 1")
	}
	w.placeholders = nil
	w.expect(t, "one is lost once more", "+a 1")
	w.expect(t, "too many were lost", "-1; given up a: 4 placeholders were lost; it is asked for again after 5m0s")
	w.gangs = nil
	w.planner.Cleared("gone", "of-no-gang")
	w.step()
	if len(w.planner.asks) > 1 || len(w.planner.cleared.asks) > 0 {
		t.Errorf("what no gang waits for is remembered: %v", w.planner.cleared.asks)
	}
}

// What the API server refuses to create is not lost: it is tried again until patience ends.
func TestRefusedCreates(t *testing.T) {
	w := newWorld(64, waits("a", 1))
	for range 10 {
		if diff := cmp.Diff("+a 1", says(w.planner.Plan(Observation{Gangs: w.gangs}, w.now))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestRequestAndItsEnd(t *testing.T) {
	g := waits("a", 2)
	g.Kind = KindProvisioningRequest
	w := newWorld(64, g)
	w.expect(t, "it waits", "+a 0")
	w.expect(t, "it is asked for", "")
	w.requests[0].Over = "no nodes"
	w.expect(t, "the autoscaler has failed", "-1; given up a: no nodes; it is asked for again after 5m0s")
	w.expect(t, "the pause", "")
}

// A deletion that fails, or is not seen yet, makes no second pause.
func TestAnAskEndsOnce(t *testing.T) {
	g := waits("a", 2)
	g.Kind = KindProvisioningRequest
	w := newWorld(64, g)
	w.step()
	w.requests[0].Over = "no nodes"
	kept := slices.Clone(w.requests)
	w.expect(t, "the autoscaler has failed", "-1; given up a: no nodes; it is asked for again after 5m0s")
	w.requests = kept
	w.expect(t, "its deletion has failed", "-1")
	w.now = w.now.Add(FirstPause)
	w.expect(t, "the pause is over", "+a 0")
}

// A new leader finds what is asked for, and since when.
func TestNewLeader(t *testing.T) {
	w := newWorld(1, waits("a", 1))
	w.step()
	w.now = w.now.Add(Patience / 2)
	w.planner = Planner{Limits: w.planner.Limits}
	waiting := w.gangs
	w.gangs, w.unplanned = nil, map[types.UID]bool{"a": true}
	w.expect(t, "another leader, which has not planned the deployment", "")
	if s := w.step(); s.Next.IsZero() || !s.Kept["a"] {
		t.Errorf("it is looked at again at %s, and kept are %v", s.Next, s.Kept)
	}
	w.gangs, w.unplanned = waiting, nil
	w.expect(t, "it has", "")
	w.unplanned = map[types.UID]bool{"a": true}
	w.expect(t, "a part of it is not planned, and counts once", "")
	w.unplanned = nil
	w.now = w.now.Add(Patience / 2)
	w.gangs, w.unplanned = nil, map[types.UID]bool{"a": true}
	before := slices.Clone(w.placeholders)
	w.expect(t, "it is never planned", "-1")
	w.gangs, w.unplanned, w.placeholders = waiting, nil, before
	w.expect(t, "patience ends when it would have", "-1; given up a: it was not placed within 15m0s; it is asked for again after 5m0s")
}

// A new leader counts what an autoscaler is asked for by ProvisioningRequests of deployments that are not planned yet.
func TestNewLeaderCountsRequests(t *testing.T) {
	requested, next := waits("a", 2), waits("b", 2)
	requested.Kind = KindProvisioningRequest
	w := newWorld(3, requested)
	w.step()
	w.planner = Planner{Limits: w.planner.Limits}
	w.gangs, w.unplanned = []Gang{next}, map[types.UID]bool{"a": true}
	w.expect(t, "another leader has planned b only", "")
	w.gangs, w.unplanned = nil, nil
	w.expect(t, "a does not wait", "-1")
	w.gangs = []Gang{next}
	w.expect(t, "the bound is free", "+b 2")
}

func TestIsPlaceholder(t *testing.T) {
	pod := func(namespace, ask string, priority int32) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Priority: &priority}}
		p.Namespace, p.Labels = namespace, map[string]string{LabelAsk: ask}
		return p
	}
	for name, tc := range map[string]struct {
		pod       *corev1.Pod
		namespace string
		want      bool
	}{
		"one of ours":                    {pod("own", "a", Priority), "own", true},
		"a user's with our label":        {pod("team", "a", Priority), "own", false},
		"one of a higher priority":       {pod("own", "a", 0), "own", false},
		"another pod of the namespace":   {pod("own", "", Priority), "own", false},
		"to a program without namespace": {pod("own", "a", Priority), "", true},
	} {
		if got := IsPlaceholder(tc.pod, tc.namespace); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if topology.PriorityOf(pod("own", "a", Priority)) < -10 {
		t.Error("Cluster Autoscaler adds no node for pods below -10")
	}
}
