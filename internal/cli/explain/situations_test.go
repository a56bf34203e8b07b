// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// waitingGraph are the pods of chat before any of them is placed.
const waitingGraph = "chat-frontend-0 gated\nchat-worker-0-0 gated\nchat-worker-0-1 gated\nchat-worker-1-0 gated\nchat-worker-1-1 gated"

// secondWaits: the first worker runs, and the second one waits.
const secondWaits = firstRuns + "chat-worker-1-0 gated\nchat-worker-1-1 gated"

// other is another deployment in one rack, with one worker for each host.
const other = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: other, namespace: team-b}
spec:
  topologyConstraint: {topologyProfile: hall}
  services:
    Worker:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 2}
      topologyConstraint: {packDomain: rack}
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {image: app, command: [/bin/sh, -c], args: [python3 -m dynamo.vllm --model m]}}`

// runs adds another deployment of a manifest, with its pods.
func (w *world) runs(manifest, pods string) *world {
	w.Helper()
	o := newWorld(w.T, topologyManifest, manifest)
	o.Nodes = w.Nodes
	o.DGD.UID = types.UID(o.DGD.Name)
	o.resolve(pods)
	w.Groups, w.Pods, w.Graphs = append(w.Groups, o.Groups...), append(w.Pods, o.Pods...), append(w.Graphs, o.DGD)
	return w
}

// startedBy makes a controller the owner of the last pod.
func (w *world) startedBy(kind, name string) *world {
	w.Pods[len(w.Pods)-1].OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
	return w
}

func (w *world) taint(node, key, value string) *world {
	w.node(node).Spec.Taints = []corev1.Taint{{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}}
	return w
}

// ranked gives the pods of chat the priorities that admission gives them.
func (w *world) ranked() *world {
	for _, pod := range w.Pods {
		if pod.Namespace == "team-a" {
			pod.Spec.Priority = ptr.To[int32](map[string]int32{"high": 1000}[pod.Spec.PriorityClassName])
		}
	}
	return w
}

// reports has the operator report what waits.
func (w *world) reports() *world { return w.condition(placed, false, w.reason(), w.said()) }

// situation is one in which a deployment waits. One command tells the cause, and what it advises ends the wait.
type situation struct {
	prepare func(t *testing.T) *world
	// cause is what the text says.
	cause []string
	// advice are the commands and the manual changes; none: nothing is advised.
	advice []string
}

var allSituations = map[string]situation{
	"it waits for GPUs that pods without a controller have": {
		func(t *testing.T) *world {
			return newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits).occupy("train", "a-1-1", "8").reports()
		},
		[]string{"Worker-1: InsufficientCapacity: needs 2 pods x 8 nvidia.com/gpu in one rack inside a", "Worker-1 fits in a/r1 after these changes."},
		[]string{"kubectl delete pod -n other train"},
	},
	"hosts are cordoned": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits)
			w.node("a-1-0").Spec.Unschedulable, w.node("a-1-1").Spec.Unschedulable = true, true
			return w.reports()
		},
		[]string{"2 cordoned"},
		[]string{"kubectl uncordon a-1-0 a-1-1"},
	},
	"a host is tainted for others": {
		func(t *testing.T) *world {
			return newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits).taint("a-1-0", "team", "training").reports()
		},
		[]string{"1 taint team=training:NoSchedule"},
		[]string{"kubectl taint node a-1-0 team=training:NoSchedule-"},
	},
	"a host is tainted for being bad": {
		func(t *testing.T) *world {
			return newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits).taint("a-1-0", "gpu-health", "xid-79").reports()
		},
		[]string{"1 taint gpu-health=xid-79:NoSchedule"},
		[]string{"Repair a-1-0: kubectl describe node shows what is wrong."},
	},
	"another zone holds all of it": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 2, 2, 2), topologyManifest, chat).resolve(secondWaits)
			return w.occupy("agent", "a-1-0", "8").startedBy("DaemonSet", "agent").reports()
		},
		[]string{"b has capacity, but running pods anchor the graph in a", "A Parallel restart places it: b holds all 3 packed replicas."},
		[]string{"kubectl trellis rollout restart --parallel dgd/chat -n team-a"},
	},
	"another zone has capacity for the replica, and not for all of them": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 2, 2, 2), topologyManifest, chat).resolve(secondWaits)
			w.occupy("agent-1", "a-1-0", "8").startedBy("DaemonSet", "agent")
			return w.occupy("agent-2", "b-0-0", "8").startedBy("DaemonSet", "agent").reports()
		},
		[]string{"b has capacity, but running pods anchor the graph in a", "A Parallel restart does not help: no zone holds all 3 packed replicas (b: 2)."},
		nil,
	},
	"pods that stay with their nodes are in the way": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits)
			return w.occupy("agent", "a-1-0", "8").startedBy("DaemonSet", "agent").reports()
		},
		[]string{"InsufficientCapacity"}, nil,
	},
	"a pod of another controller is in the way": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits)
			return w.occupy("db-0", "a-1-0", "8").startedBy("StatefulSet", "db").reports()
		},
		[]string{"used by other/db-0 (8)"},
		[]string{"Scale in or move StatefulSet other/db, which started db-0: deleted alone, a pod is started again."},
	},
	"replicas of another deployment are in the way": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 3, 2), topologyManifest, chat).resolve(secondWaits)
			return w.runs(other, "other-worker-0-0 node a-1-0\nother-worker-0-1 node a-1-1\nother-worker-1-0 node a-2-0\nother-worker-1-1 node a-2-1").reports()
		},
		[]string{"Worker-1 fits in a/r2 after these changes: Worker of team-b/other is scaled in to 1."},
		[]string{`kubectl patch dgd -n team-b other --type=json -p '[{"op":"replace","path":"/spec/components/0/replicas","value":1}]'`},
	},
	"the only replica of another deployment is in the way": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits)
			return w.runs(strings.Replace(other, "replicas: 2", "replicas: 1", 1), "other-worker-0-0 node a-1-0\nother-worker-0-1 node a-1-1").reports()
		},
		[]string{"after these changes: team-b/other is deleted."},
		[]string{"kubectl delete dgd -n team-b other"},
	},
	"it was preempted": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits)
			w.runs(strings.Replace(other, "replicas: 2", "replicas: 1", 1), "other-worker-0-0 node a-1-0\nother-worker-0-1 node a-1-1")
			const uid = "6b1b1d0c-0d0c-4a51-9d5c-0123456789ab"
			for _, pod := range w.Pods {
				if pod.Namespace == "team-b" {
					pod.Spec.Priority = ptr.To[int32](1000)
				}
			}
			w.Pods[len(w.Pods)-1].UID = uid
			w.Preempted = []corev1.Event{{
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team-a", Name: "chat-worker-1-0"}, Reason: reasonPreempted,
				Message: "Preempted by pod " + uid + " on node a-1-0", LastTimestamp: ago(5 * time.Minute),
			}}
			return w.reports()
		},
		[]string{"Worker-1: preempted 5m ago by team-b/other (priority 1000)"}, nil,
	},
	"it was preempted by a PodGroup, whose replica was recreated": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits)
			w.runs(strings.Replace(other, "replicas: 2", "replicas: 1", 1), "other-worker-0-0 node a-1-0\nother-worker-0-1 node a-1-1")
			for _, pod := range w.Pods {
				if pod.Namespace == "team-b" {
					pod.Spec.Priority, pod.Spec.SchedulingGroup = ptr.To[int32](1000), &corev1.PodSchedulingGroup{PodGroupName: ptr.To("other-9983-worker-0-abcde")}
				}
			}
			w.Preempted = []corev1.Event{preemptedBy("chat-worker-1-0", "other-9983-worker-0-vwxyz")}
			return w.reports()
		},
		[]string{"Worker-1: preempted 5m ago by team-b/other (priority 1000)"}, nil,
	},
	"it was preempted by a PodGroup that is gone": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits)
			w.runs(other, "other-worker-0-0 node a-1-0\nother-worker-0-1 node a-1-1")
			w.Preempted = []corev1.Event{preemptedBy("chat-worker-1-0", "other-9983-worker-0-vwxyz")}
			return w.reports()
		},
		[]string{"Worker-1: preempted 5m ago by PodGroup team-b/other-9983-worker-0-vwxyz, which is gone, or which you may not see"},
		[]string{"kubectl delete dgd -n team-b other"},
	},
	"one of its components has no priority": {
		func(t *testing.T) *world {
			manifest := strings.Replace(chat, "extraPodSpec: {mainContainer: {image: app, command", "extraPodSpec: {priorityClassName: high, mainContainer: {image: app, command", 1)
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, manifest)
			w.Priorities = []*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}}
			for _, n := range w.Nodes {
				w.occupy("db-"+n.Name, n.Name, "8").startedBy("StatefulSet", "db")
			}
			return w.resolve(waitingGraph).ranked().reports()
		},
		[]string{"The deployment has the lowest priority of its components, 0: Frontend has no priority class. Worker has high, 1000."},
		[]string{
			"Scale in or move StatefulSet other/db, which started db-a-0-0, db-a-0-1: deleted alone, a pod is started again.",
			`kubectl patch dgd -n team-a chat --type=merge -p '{"spec":{"priorityClassName":"high"}}'`,
		},
	},
	"capacity is fragmented": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 3, 2), topologyManifest, chat).resolve(secondWaits)
			return w.occupy("small-1", "a-1-0", "1").occupy("small-2", "a-2-0", "1").reports()
		},
		[]string{"a/r1 2 15 1 of 2 1 short of GPUs", "a/r2 2 15 1 of 2 1 short of GPUs"},
		[]string{"kubectl delete pod -n other small-1"},
	},
	"no node has the key of a level": {
		func(t *testing.T) *world {
			return newWorld(t, nodes(t, 1, 2, 2), strings.Replace(topologyManifest, "key: rack", "key: rakc", 1), chat).resolve(waitingGraph).reports()
		},
		[]string{"NoDomain: no node has label rakc of level 'rack': correct the key of the level, or label the nodes; needs"}, nil,
	},
	"hosts lack the label of a level": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 1), topologyManifest, chat)
			delete(w.node("a-1-0").Labels, "rack")
			return w.resolve(waitingGraph).reports()
		},
		[]string{"NoDomain: no rack has 2 hosts: the largest has 1 (a/r0), and 1 of 2 hosts lack label rack of level 'rack': label them"}, nil,
	},
	"the hosts are too few": {
		func(t *testing.T) *world {
			return newWorld(t, nodes(t, 1, 2, 1), topologyManifest, chat).resolve(waitingGraph).reports()
		},
		[]string{"NeverFits: no rack has 2 hosts: the largest has 1 (a/r0); needs"}, nil,
	},
	"a quota refuses its pods": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(firstRuns)
			w.groupCondition("chat-worker", "creating Worker-1 of chat: exceeded quota: gpus, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=24, limited: requests.nvidia.com/gpu=32")
			return w.condition(placed, false, "CreationRefused", "its pods cannot be created")
		},
		[]string{"CreationRefused: creating Worker-1 of chat: exceeded quota: gpus, requested: requests.nvidia.com/gpu=16"}, nil,
	},
	"its image is broken": {
		func(t *testing.T) *world {
			return newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve("chat-frontend-0 node a-0-0\nchat-worker-0-0 crashing a-0-0\nchat-worker-0-1 crashing a-0-1\n"+
				"chat-worker-1-0 node a-1-0\nchat-worker-1-1 node a-1-1").condition(placed, true, "AllReplicasPlaced", "all 3 packed replicas are placed in a")
		},
		[]string{"chat-worker-0-0, container main: CrashLoopBackOff"}, nil,
	},
	"a level is left out": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat)
			for _, host := range w.Nodes { // each block has a rack r0, and the topology has no level for blocks
				host.Labels["network.topology.nvidia.com/block"], host.Labels["rack"] = "block-"+host.Labels["rack"], "r0"
			}
			return w.resolve("chat-frontend-0 node a-0-0\nchat-worker-0-0 node a-0-0\nchat-worker-0-1 node a-1-0\n"+
				"chat-worker-1-0 node a-0-1\nchat-worker-1-1 node a-1-1").condition(placed, true, "AllReplicasPlaced", "all 3 packed replicas are placed in a")
		},
		[]string{"rack a/r0 covers 2 places", "network.topology.nvidia.com/block (block-r0, block-r1)", "make that label a level above 'rack'"}, nil,
	},
	"the operator does not run": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(waitingGraph).condition(placed, false, "Pending", "its pods are being created")
			w.Operator = &live.Heartbeat{Silent: true, Message: "The operator has not renewed its lease for 12m: what follows may be old."}
			return w
		},
		[]string{"The operator has not renewed its lease for 12m", "There is capacity for everything, and the operator is not running."}, nil,
	},
	"the reader has no rights": {
		func(t *testing.T) *world {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(secondWaits).occupy("train", "a-1-1", "8").reports()
			w.Nodes, w.Events, w.EventsHidden, w.Denied = nil, nil, true, []string{"list nodes", "list pods"}
			return w
		},
		[]string{"You may not list nodes, list pods in the whole cluster."}, nil,
	},
}

// TestSituations: one command tells the cause; what it advises is followed as a user would, and ends the wait.
func TestSituations(t *testing.T) {
	for name, tc := range allSituations {
		t.Run(name, func(t *testing.T) {
			w := tc.prepare(t)
			report := Build(w.Subject)
			said := strings.Join(strings.Fields(report.Text(text.Page{Columns: 1000, Wide: true})), " ")
			if report.Operator != nil { // its warning is printed above the report
				said = report.Operator.Message + " " + said
			}
			for _, want := range tc.cause {
				if !strings.Contains(said, want) {
					t.Errorf("the text does not say %q:\n%s", want, report.Text(text.Page{Columns: 160, Wide: true}))
				}
			}
			var advised []string
			for _, a := range report.Advice {
				advised = append(append(advised, a.Commands...), a.Manual...)
			}
			if !slices.Equal(advised, tc.advice) {
				t.Fatalf("advised:\n%s\nwant:\n%s", strings.Join(advised, "\n"), strings.Join(tc.advice, "\n"))
			}
			for i := range report.Advice {
				after := tc.prepare(t)
				for _, step := range append(slices.Clone(report.Advice[i].Commands), report.Advice[i].Manual...) {
					after.follow(step)
				}
				again := Build(after.Subject)
				before, now := replicasOf(&report), replicasOf(&again)
				name, _, one := strings.Cut(report.Advice[i].Effect, " fits ")
				if one && slices.Contains(now, name) || len(now) >= len(before) || strings.Contains(report.Advice[i].Effect, "restart") && len(now) > 0 {
					t.Errorf("after %+v these wait: %v\n%s", report.Advice[i], now, again.Text(text.Page{}))
				}
			}
		})
	}
}

// replicasOf names what waits.
func replicasOf(r *Explanation) (names []string) {
	for i := range r.Waiting {
		for _, who := range r.Waiting[i].Who {
			for _, n := range who.Replicas {
				names = append(names, fmt.Sprintf("%s-%d", who.Component, n))
			}
		}
	}
	return names
}

// TestAdviceIsNotCut: however little space there is, every change is there, whole.
func TestAdviceIsNotCut(t *testing.T) {
	worlds := situations(t)
	for name, tc := range allSituations {
		worlds[name] = tc.prepare(t)
	}
	advised := 0
	for name, w := range worlds {
		for i := range 40 { // conditions and notes that take space
			w.condition(fmt.Sprintf("Other%d", i), false, "Reason", strings.Repeat("it is not as expected ", 30))
		}
		report := Build(w.Subject)
		for _, columns := range []int{80, 100, 160} {
			got := report.Text(text.Page{Columns: columns})
			words := strings.Join(strings.Fields(got), " ")
			for _, a := range report.Advice {
				advised++
				for _, command := range a.Commands {
					if !strings.Contains(got, "  "+command+"\n") {
						t.Errorf("%s, %d columns: %q is missing in\n%s", name, columns, command, got)
					}
				}
				for _, text := range append(slices.Clone(a.Manual), a.Effect) {
					if !strings.Contains(words, text) {
						t.Errorf("%s, %d columns: %q is missing in\n%s", name, columns, text, got)
					}
				}
			}
		}
	}
	if advised < 30 {
		t.Errorf("only %d changes were advised", advised)
	}
}

// preemptedBy is the kube-scheduler's event about a pod that a PodGroup has preempted.
func preemptedBy(pod, group string) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team-a", Name: pod}, Reason: reasonPreempted,
		Message:       "Preempted by podgroup 6b1b1d0c-0d0c-4a51-9d5c-0123456789ab on node cluster",
		Related:       &corev1.ObjectReference{Kind: "PodGroup", Namespace: "team-b", Name: group},
		LastTimestamp: ago(5 * time.Minute),
	}
}
