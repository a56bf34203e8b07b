// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/whatif"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

const (
	ready  = nvidiav1beta1.ConditionReady
	placed = nvidiav1beta1.ConditionPlaced
)

const firstRuns = "chat-frontend-0 node a-0-0\nchat-worker-0-0 node a-0-0\nchat-worker-0-1 node a-0-1\n"

// waiting is the situation that the command is for: the second worker has no capacity in the zone that the first one has chosen.
func waiting(t *testing.T) *world {
	w := newWorld(t, nodes(t, 2, 3, 2), topologyManifest, chat)
	w.occupy("train-7", "a-1-1", "8").occupy("web-1", "a-2-0", "1").occupy("web-2", "a-2-0", "2")
	w.node("a-1-0").Spec.Unschedulable = true
	w.node("a-2-1").Spec.Taints = []corev1.Taint{{Key: "repair", Value: "soon", Effect: corev1.TaintEffectNoSchedule}}
	w.resolve(firstRuns + "chat-worker-1-0 gated\nchat-worker-1-1 gated")
	w.DGD.Status.State, w.DGD.Status.Placement = "pending", &nvidiav1beta1.PlacementStatus{Domain: "a"}
	w.condition(ready, false, "insufficient_capacity", "Resources not ready: scalinggroup/chat-worker: desired=2, ready=1")
	w.event(time.Minute, "Pod", "chat-worker-1-0", "InsufficientCapacity", "needs 2 pods x 8 nvidia.com/gpu in one rack inside a")
	return w.event(11*time.Minute, "DynamoGraphDeployment", "chat", "InsufficientCapacity", "Placed: 2 of 3 packed replicas are placed.")
}

// said is what the operator would say of the world as it is, in the condition Placed.
func (w *world) said() string {
	planner := whatif.NewPlanner(w.World)
	planner.Begin()
	defer planner.Rollback()
	plan, _ := w.plan(planner)
	return plan.Words()
}

// reason is the one that goes with that.
func (w *world) reason() string {
	planner := whatif.NewPlanner(w.World)
	planner.Begin()
	defer planner.Rollback()
	plan, _ := w.plan(planner)
	return gang.LeadingCode(plan.Waiting())
}

// TestText shows the whole output for one situation each.
func TestText(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T) *world{
		"waiting": func(t *testing.T) *world {
			w := waiting(t)
			return w.condition(placed, false, "InsufficientCapacity", w.said())
		},
		"running": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(firstRuns + "chat-worker-1-0 node a-1-0\nchat-worker-1-1 node a-1-1")
			w.DGD.Status.State = "successful"
			return w.condition(ready, true, "all_resources_are_ready", "All resources are ready").condition(placed, true, "AllReplicasPlaced", "all 3 packed replicas are placed in a")
		},
		"crashing-and-released": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve("chat-frontend-0 released\nchat-worker-0-0 crashing a-0-0\nchat-worker-0-1 crashing a-0-1\n" +
				"chat-worker-1-0 node a-1-0\nchat-worker-1-1 leaving a-1-1")
			return w.condition(placed, true, "AllReplicasPlaced", "all 3 packed replicas are placed in a")
		},
		"pod-that-does-not-end": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(firstRuns + "chat-worker-1-1 stuck a-1-1")
			w.node("a-1-1").Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			return w.condition(placed, false, gang.CodePodsNotEnding, w.said())
		},
		"capacity-by-now": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(firstRuns + "chat-worker-1-0 gated\nchat-worker-1-1 gated")
			return w.condition(placed, false, "InsufficientCapacity", "2 of 3 packed replicas are placed. Worker-1: needs 2 pods")
		},
		"requeued": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(firstRuns + "chat-worker-1-0 gated\nchat-worker-1-1 gated")
			return w.condition(placed, false, "Requeued", "2 of 3 packed replicas are placed. Worker-1: chat-worker-1-0 could not be bound: 0/4 nodes are available")
		},
		"waits-for-admission": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(firstRuns + "chat-worker-1-0 unadmitted\nchat-worker-1-1 unadmitted")
			return w.condition(placed, false, gang.CodeWaitingForAdmission, w.said())
		},
		"other-numbers": func(t *testing.T) *world {
			return waiting(t).condition(placed, false, "InsufficientCapacity", "2 of 3 packed replicas are placed. Worker-1: needs 2 pods x 8 nvidia.com/gpu in one rack inside a; a/r1 holds 1 of 2")
		},
		"base-gang": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 2, 2, 1), topologyManifest, chat).resolve("chat-worker-0-0 gated\nchat-worker-0-1 gated\nchat-worker-1-0 gated\nchat-worker-1-1 gated\nchat-frontend-0 gated")
			return w
		},
		"level-gone": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(firstRuns + "chat-worker-1-0 gated\nchat-worker-1-1 gated")
			w.Topologies[0].Spec.Levels = w.Topologies[0].Spec.Levels[:1]
			w.condition(placed, false, "LevelGone", w.said())
			return w.condition(nvidiav1beta1.ConditionTopologyLevelsAvailable, false, "TopologyLevelsUnavailable", "Topology level 'rack' is no longer available in the cluster topology")
		},
		"no-rights": func(t *testing.T) *world {
			w := waiting(t)
			w.condition(placed, false, "InsufficientCapacity", w.said())
			w.Nodes, w.Events, w.EventsHidden, w.Denied = nil, nil, true, []string{"list nodes", "list pods"}
			return w
		},
		"lacks-quota": func(t *testing.T) *world {
			const lack = "exceeded quota: gpus, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=24, limited: requests.nvidia.com/gpu=32; " +
				"Worker-0 of first, Worker-1 of first, the base gang of second and 4 others wait before it"
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(firstRuns)
			w.groupCondition("chat-worker", "creating Worker-1 of chat: "+lack)
			w.condition(ready, false, "some_resources_are_not_ready", "Resources not ready: scalinggroup/chat-worker: desired=2, ready=1")
			return w.condition(placed, false, nvidiav1beta1.ReasonCreationRefused,
				"2 of 3 packed replicas are placed. Worker-1: its pods cannot be created: creating Worker-1 of chat: "+lack)
		},
		"lacks-quota-unpacked": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(firstRuns)
			w.groupCondition("chat-worker", "creating Worker-1 of chat: exceeded quota: pods, requested: pods=2, used: pods=3, limited: pods=4")
			return w.condition(placed, true, "AllReplicasPlaced", "no replica is packed; the kube-scheduler places each pod on its own")
		},
		"refused": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, strings.Replace(chat, "replicas: 2", "replicas: -2", 1))
			return w.condition(nvidiav1beta1.ConditionValid, false, "Invalid", "the object would have been refused at admission")
		},
		"other-provider": func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve("")
			for _, sg := range w.Groups {
				sg.Spec.Provider = "Grove"
			}
			return w.condition(placed, false, "Unschedulable", "Grove waits for capacity")
		},
		"large": func(t *testing.T) *world { // 200 replicas on 360 full hosts: the text stays short
			w := newWorld(t, nodes(t, 4, 9, 9), topologyManifest, strings.Replace(chat, "replicas: 2", "replicas: 200", 1))
			for i, n := range w.Nodes {
				if n.Name[0] != 'a' || i%2 == 0 {
					w.occupy(fmt.Sprintf("train-%d", i), n.Name, "8")
				}
			}
			return w.resolve("")
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Build(prepare(t).Subject).Text(text.Page{})
			golden.Check(t, filepath.Join("testdata", name+".golden"), got)
			if lines := withoutAdvice(got); lines > MaxLines {
				t.Errorf("%d lines", lines)
			}
		})
	}
}

// TestFolded: equal replicas are one, and the cause comes before the numbers, however many wait: in the report, and in the operator's words, which
// queue, status and kubectl get show.
func TestFolded(t *testing.T) {
	var out strings.Builder
	for _, n := range []int{1, 2, 3, 20} {
		w := newWorld(t, nodes(t, 2, 24, 2), topologyManifest, strings.Replace(chat, "replicas: 2", fmt.Sprintf("replicas: %d", 1+n), 1))
		pods := firstRuns
		for i := range n {
			pods += fmt.Sprintf("chat-worker-%d-0 gated\nchat-worker-%d-1 gated\n", 1+i, 1+i)
		}
		for i, node := range w.Nodes {
			if node.Labels["zone"] == "a" && node.Labels["rack"] != "r0" {
				w.occupy(fmt.Sprintf("train-%d", i), node.Name, "8")
			}
		}
		w.resolve(pods)
		words := w.said()
		fmt.Fprintf(&out, "%s\n\n%s\n", words, Build(w.condition(placed, false, "InsufficientCapacity", words).Subject).Text(text.Page{}))
	}
	golden.Check(t, filepath.Join("testdata", "folded.golden"), out.String())
}

// The JSON form has the numbers.
func TestJSON(t *testing.T) {
	w := waiting(t)
	w.condition(placed, false, "InsufficientCapacity", w.said())
	got, err := json.MarshalIndent(Build(w.Subject), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, filepath.Join("testdata", "waiting.json"), string(got)+"\n")
}

func TestOrderDoesNotMatter(t *testing.T) {
	w := waiting(t)
	want := Build(w.Subject).Text(text.Page{})
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffle(random, w.Nodes)
		shuffle(random, w.Pods)
		shuffle(random, w.Groups)
		shuffle(random, w.Events)
		if diff := cmp.Diff(want, Build(w.Subject).Text(text.Page{})); diff != "" {
			t.Fatalf("-first +shuffled:\n%s", diff)
		}
	}
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

func TestTarget(t *testing.T) {
	for arg, want := range map[string]target{
		"dgd/a": {kindGraph, "a"}, "a": {kindGraph, "a"}, "sg/a": {kindGroup, "a"}, "scalinggroups.trellis.dev/a": {kindGroup, "a"}, "Pod/a": {kindPod, "a"},
	} {
		if got, err := parseTarget(arg); err != nil || got != want {
			t.Errorf("%s: %v (%v), want %v", arg, got, err, want)
		}
	}
	for _, arg := range []string{"svc/a", "pod/", "dgd/a/b", ""} {
		if _, err := parseTarget(arg); err == nil {
			t.Errorf("%s: want an error", arg)
		}
	}
}
