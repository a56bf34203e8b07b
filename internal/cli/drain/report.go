// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Observed is the input of the report about a drain.
type Observed struct {
	// Nodes to drain, by name.
	Nodes []string
	// Schedulable are the nodes that are not cordoned.
	Schedulable []string
	// Pods of replicas, on any node, and their scaling groups.
	Pods   []corev1.Pod
	Groups []trellisv1alpha1.ScalingGroup
}

// Report lists the replicas on nodes to drain.
type Report struct {
	Nodes    []string  `json:"nodes"`
	Replicas []Replica `json:"replicas"`
}

// Replica is a replica with pods on the nodes to drain.
type Replica struct {
	Namespace  string   `json:"namespace"`
	Deployment string   `json:"deployment"`
	Component  string   `json:"component"`
	Replica    int32    `json:"replica"`
	Pods       int      `json:"pods"`
	Nodes      []string `json:"nodes"`
	// Stays is the reason why the operator does not move the replica; "" if it moves the replica.
	Stays string `json:"stays,omitempty"`
	// Progress is the operator's report on the move of the replica; empty before the operator has begun the move.
	Progress string `json:"progress,omitempty"`
}

// Build lists the replicas, by deployment, component and ordinal.
func Build(o Observed) *Report {
	r := &Report{Nodes: o.Nodes, Replicas: []Replica{}}
	groups := map[types.NamespacedName]*trellisv1alpha1.ScalingGroup{}
	for i := range o.Groups {
		groups[types.NamespacedName{Namespace: o.Groups[i].Namespace, Name: o.Groups[i].Name}] = &o.Groups[i]
	}
	for i := range o.Pods {
		pod := &o.Pods[i]
		ordinal, _, ok := render.ReplicaOf(pod)
		sg := groups[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[render.LabelScalingGroup]}]
		if sg == nil || !ok || !slices.Contains(o.Nodes, pod.Spec.NodeName) || ended(pod) {
			continue
		}
		r.add(sg, ordinal, pod.Spec.NodeName)
	}
	slices.SortFunc(r.Replicas, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.Component, b.Component),
			cmp.Compare(a.Replica, b.Replica))
	})
	return r
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// add counts a pod of a replica on a node.
func (r *Report) add(sg *trellisv1alpha1.ScalingGroup, ordinal int32, node string) {
	at := slices.IndexFunc(r.Replicas, func(one Replica) bool {
		return one.Namespace == sg.Namespace && one.Deployment == sg.Spec.Graph && one.Component == sg.Spec.Component && one.Replica == ordinal
	})
	if at < 0 {
		at = len(r.Replicas)
		r.Replicas = append(r.Replicas, Replica{
			Namespace: sg.Namespace, Deployment: sg.Spec.Graph, Component: sg.Spec.Component, Replica: ordinal, Stays: stays(sg),
			Progress: progress(sg, ordinal),
		})
	}
	one := &r.Replicas[at]
	one.Pods++
	if !slices.Contains(one.Nodes, node) {
		one.Nodes = append(one.Nodes, node)
		slices.SortFunc(one.Nodes, cli.Natural)
	}
}

// stays returns the reason why the operator does not move the replicas of a scaling group; "" if it moves the replicas.
func stays(sg *trellisv1alpha1.ScalingGroup) string {
	switch {
	case sg.Spec.Moves == trellisv1alpha1.MovesNever:
		return "trellis.dev/moves is Never"
	case !specs.Named(sg.Spec.Provider).Planned:
		return sg.Spec.Provider + " makes its pods"
	}
	return ""
}

// progress returns the operator's report on the move of a replica; "" for none.
func progress(sg *trellisv1alpha1.ScalingGroup, ordinal int32) string {
	c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionMoved)
	if c == nil || c.Status != metav1.ConditionFalse {
		return ""
	}
	prefix := fmt.Sprintf("moving %s-%d: ", sg.Spec.Component, ordinal)
	for _, part := range strings.Split(c.Message, "; ") {
		if rest, is := strings.CutPrefix(part, prefix); is {
			return rest
		}
	}
	if slices.ContainsFunc(sg.Status.Moves, func(m trellisv1alpha1.ReplicaMove) bool { return m.Replica == ordinal }) {
		return "waits for its turn"
	}
	return ""
}

// Moving counts the replicas that the operator moves.
func (r *Report) Moving() int {
	n := 0
	for i := range r.Replicas {
		if r.Replicas[i].Stays == "" {
			n++
		}
	}
	return n
}

// Refs implements cli.Report.
func (r *Report) Refs() []cli.Ref {
	var refs []cli.Ref
	for i := range r.Replicas {
		ref := cli.Ref{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: r.Replicas[i].Deployment}
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Text implements cli.Report.
func (r *Report) Text(p text.Page) string {
	if len(r.Replicas) == 0 {
		return "no replica of an inference graph is on " + strings.Join(r.Nodes, ", ") + "\n"
	}
	rows := [][]string{{"NAMESPACE", "DEPLOYMENT", "REPLICA", "PODS", "NODES", "STATE"}}
	for i := range r.Replicas {
		one := &r.Replicas[i]
		state := cmp.Or(one.Progress, "moves")
		if one.Stays != "" {
			state = "stays: " + one.Stays
		}
		rows = append(rows, []string{
			one.Namespace, one.Deployment, fmt.Sprintf("%s-%d", one.Component, one.Replica), strconv.Itoa(one.Pods), strings.Join(one.Nodes, ","),
			state,
		})
	}
	return p.Table(rows, 3)
}
