// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/replicas"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// WayKind is a kind of way to remove a pod from its host permanently.
type WayKind string

// Kinds of ways. Deleting a pod that has a controller is not permanent: the controller recreates the pod, perhaps on the same host.
const (
	// WayPod deletes the pod, which has no controller.
	WayPod WayKind = "pod"
	// WayController scales in or moves the workload of the pod's controller. The field Controller names this controller.
	WayController WayKind = "controller"
	// WayScaleIn scales a component in. This removes the pod's replica, and the replicas that precede it in the order of scale-in.
	WayScaleIn WayKind = "scale in"
	// WayDelete deletes the deployment, because a scale-in would leave the component without replicas.
	WayDelete WayKind = "delete"
	// WayPlanned omits the pod's deployment from the command line, because the same command plans it.
	WayPlanned WayKind = "planned"
)

// Way describes how to remove a pod from its host permanently.
type Way struct {
	Kind WayKind
	// Controller is the kind and name of the pod's controller: "StatefulSet train".
	Controller string
	// Graph is the deployment to scale in or delete.
	Graph types.NamespacedName
	// Component is the component to scale in, and To is its new number of replicas. Index is the component's index in spec.components; -1
	// if the deployment is unknown. Adapter is the name of the component's scaling adapter; "" for none.
	Component string
	To        int
	Index     int
	Adapter   string
}

// way returns how to remove an occupant, based on the scale-ins and deletions that the trial has made.
func (t *trial) way(o *Occupant) Way {
	switch {
	case o.group == nil && o.controller != "":
		return Way{Kind: WayController, Controller: o.controller}
	case o.group == nil && o.Planned:
		return Way{Kind: WayPlanned}
	case o.group == nil:
		return Way{Kind: WayPod}
	}
	graph := types.NamespacedName{Namespace: o.Namespace, Name: o.group.Spec.Graph}
	if t.deleted[graph] {
		return Way{Kind: WayDelete, Graph: graph}
	}
	way := Way{Kind: WayScaleIn, Graph: graph, Component: o.group.Spec.Component, Index: -1}
	way.To = len(t.order(o.group)) - t.scaledIn[nameOf(o.group)]
	if dgd := t.world.Graph(graph); dgd != nil {
		for i := range dgd.Spec.Components {
			if c := &dgd.Spec.Components[i]; c.Name == way.Component {
				if way.Index = i; replicas.WithAdapter(c) {
					way.Adapter = replicas.AdapterName(dgd.Name, c.Name)
				}
			}
		}
	}
	return way
}

// leave removes an occupant from the cluster. If the occupant belongs to a deployment's replica, leave also removes all other replicas that
// the necessary scale-in removes. If no scale-in is possible, leave removes the whole deployment.
func (t *trial) leave(o *Occupant) {
	if o.group == nil {
		t.cluster.DeletePod(o.id)
		return
	}
	order := t.order(o.group)
	last := slices.Index(order, o.ordinal) + 1
	if last == 0 || last >= len(order) {
		t.deleteGraph(types.NamespacedName{Namespace: o.Namespace, Name: o.group.Spec.Graph})
		return
	}
	name := nameOf(o.group)
	t.scaledIn[name] = max(t.scaledIn[name], last)
	for _, pod := range t.index.pods[name] {
		if ordinal, _, ok := render.ReplicaOf(pod); ok && slices.Contains(order[:last], ordinal) && render.Member(pod, o.group) {
			t.cluster.DeletePod(topology.PodID(pod))
		}
	}
}

// deleteGraph removes all pods of a deployment from the cluster.
func (t *trial) deleteGraph(graph types.NamespacedName) {
	t.deleted[graph] = true
	for _, sg := range t.index.groups[graph] {
		for _, pod := range t.index.pods[nameOf(sg)] {
			if render.Member(pod, sg) {
				t.cluster.DeletePod(topology.PodID(pod))
			}
		}
	}
}

// lastReplica is added to the rank of a component's last replica, because only deleting the deployment removes this replica.
const lastReplica = 100

// rankOf returns the number of replicas that a scale-in removes up to and including this replica. If the deployment has to be deleted,
// rankOf adds lastReplica.
func (t *trial) rankOf(sg *trellisv1alpha1.ScalingGroup, ordinal int32) int {
	order := t.order(sg)
	if last := slices.Index(order, ordinal) + 1; last > 0 && last < len(order) {
		return last
	}
	return len(order) + lastReplica
}

// order returns the result of leavers for a group, and caches it for the trial.
func (t *trial) order(sg *trellisv1alpha1.ScalingGroup) []int32 {
	name := nameOf(sg)
	if order, known := t.orders[name]; known {
		return order
	}
	t.orders[name] = t.leavers(sg)
	return t.orders[name]
}

// leavers returns the ordinals of a group's replicas in the operator's order of scale-in; none if another controller scales the group in.
func (p *Planner) leavers(sg *trellisv1alpha1.ScalingGroup) []int32 {
	if !specs.Named(sg.Spec.Provider).Planned {
		return nil
	}
	found, created := map[int32]*rollout.Replica{}, map[int32]int64{}
	for _, pod := range p.index.pods[nameOf(sg)] {
		ordinal, _, ok := render.ReplicaOf(pod)
		if !ok || gang.Leaving(pod) || !render.Member(pod, sg) {
			continue
		}
		r := found[ordinal]
		if r == nil {
			r = &rollout.Replica{Ordinal: int(ordinal), State: rollout.Available}
			found[ordinal] = r
		}
		r.State, r.Created = min(r.State, stateOf(pod)), max(r.Created, pod.CreationTimestamp.Unix())
		r.Outdated = r.Outdated || render.Outdated(sg, pod)
		created[ordinal] = r.Created
	}
	if gang.RoleOf(sg) != placement.NoRole {
		of := types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}
		record := p.recordOf(of)
		for ordinal, excess := range gang.Excess(sg, slices.Collect(maps.Values(p.index.groups[of])), record, created) {
			if r := found[ordinal]; r != nil {
				r.Excess = excess
			}
		}
	}
	list := make([]rollout.Replica, 0, len(found))
	for _, r := range found {
		list = append(list, *r)
	}
	slices.SortFunc(list, rollout.For(sg).CompareLoss)
	out := make([]int32, 0, len(list))
	for _, r := range list {
		out = append(out, int32(r.Ordinal))
	}
	return out
}

// stateOf returns the state that one pod implies for its replica.
func stateOf(pod *corev1.Pod) rollout.State {
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case render.GateClosed(pod):
		return rollout.Waiting
	case ready:
		return rollout.Available
	}
	return rollout.Starting
}

// ofNode reports whether a DaemonSet or the kubelet would recreate a pod on its node.
func ofNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// occupant describes a pod on a host. It returns false for a pod that cannot be removed for the graph: the pod belongs to its node, has a
// higher priority than the graph, or belongs to an unknown scaling group.
func (t *trial) occupant(pod *corev1.Pod) (Occupant, bool) {
	o := Occupant{NamespacedName: nameOf(pod), id: topology.PodID(pod), requests: topology.ShapeOf(pod).Requests(), rank: 1}
	if ofNode(pod) || topology.PriorityOf(t.ranked(pod)) > t.priority {
		return o, false
	}
	if group := pod.Labels[render.LabelScalingGroup]; group != "" {
		sg, ordinal, ok := t.index.named[types.NamespacedName{Namespace: pod.Namespace, Name: group}], int32(0), false
		if sg == nil || !render.Member(pod, sg) {
			return o, false
		}
		if ordinal, _, ok = render.ReplicaOf(pod); ok {
			o.group, o.ordinal = sg, ordinal
			o.rank = t.rankOf(sg, ordinal)
		}
		return o, ok
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		o.controller = owner.Kind + " " + owner.Name
	}
	return o, true
}

// badWords are words in taints that keep pods off a host because the host is broken or about to be removed.
var badWords = []string{
	"bad", "broken", "cordon", "delet", "degraded", "disrupt", "drain", "error", "evict", "fail", "fault", "maintenance", "not-ready",
	"notready", "out-of-service", "pressure", "quarantine", "repair", "shutdown", "terminat", "unavailable", "unhealthy", "uninitialized",
	"unreachable", "unschedulable", "xid",
}

// bad reports whether a taint marks its host as unfit for pods. Users are never advised to remove such a taint.
func bad(taint *corev1.Taint) bool {
	if strings.HasPrefix(taint.Key, conditionTaints) {
		return true
	}
	text := strings.ToLower(taint.Key + "=" + taint.Value)
	return slices.ContainsFunc(badWords, func(word string) bool { return strings.Contains(text, word) })
}
