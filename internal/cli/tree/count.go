// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/component-helpers/resource"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// gpus is the resource counted unless the graphs ask for another kind of device.
const gpus = "nvidia.com/gpu"

// counter knows how much of the resource every node has and how much is used.
type counter struct {
	resource string
	used     map[string]int64
}

// newCounter chooses the resource and adds up what pods use. Nothing is counted when a part of the cluster is hidden from the user.
func newCounter(s *Snapshot, graphs []*graphPods) counter {
	c := counter{used: map[string]int64{}}
	if s.NodesHidden || s.OthersHidden {
		return c
	}
	if c.resource = devices(graphs); c.resource == "" && slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool {
		_, ok := n.Status.Allocatable[gpus]
		return ok
	}) {
		c.resource = gpus
	}
	if c.resource == "" {
		return c
	}
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Spec.NodeName != "" {
			c.used[p.Spec.NodeName] += c.takes(p)
		}
	}
	for _, g := range graphs {
		for i := range g.pods {
			g.pods[i].Amount = c.takes(g.pods[i].object)
		}
	}
	return c
}

// takes is how much of the resource a pod asks for.
func (c counter) takes(p *corev1.Pod) int64 {
	if c.resource == "" {
		return 0
	}
	amount := resource.PodRequests(p, resource.PodResourcesOptions{})[corev1.ResourceName(c.resource)]
	return amount.Value()
}

// devices is the extended resource that most pods of the graphs ask for; GPUs come first.
func devices(graphs []*graphPods) string {
	counts := map[string]int{}
	for _, g := range graphs {
		for _, p := range g.pods {
			for name := range resource.PodRequests(p.object, resource.PodResourcesOptions{}) {
				if s := string(name); strings.Contains(s, "/") && !strings.Contains(s, "kubernetes.io/") {
					counts[s]++
				}
			}
		}
	}
	if counts[gpus] > 0 {
		return gpus
	}
	best := ""
	for name, n := range counts {
		if n > counts[best] || n == counts[best] && name < best {
			best = name
		}
	}
	return best
}

// amount of a node, nil when nothing is counted.
func (c counter) amount(n *corev1.Node) *Amount {
	if c.resource == "" {
		return nil
	}
	total := n.Status.Allocatable[corev1.ResourceName(c.resource)]
	a := &Amount{Used: c.used[n.Name], Total: total.Value()}
	if stateOf(n) == "" {
		a.Free = max(0, a.Total-a.Used)
	}
	return a
}

func (a *Amount) add(o *Amount) *Amount {
	switch {
	case o == nil:
		return a
	case a == nil:
		a = &Amount{}
	}
	return &Amount{Used: a.Used + o.Used, Free: a.Free + o.Free, Total: a.Total + o.Total}
}

// stateOf says why a node takes no pods, or "".
func stateOf(n *corev1.Node) string {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case !ready:
		return "not ready"
	case n.Spec.Unschedulable:
		return "cordoned"
	}
	return ""
}

// notes says what the drawing does not show.
func (s *Snapshot) notes(graphs []*graphPods) []string {
	var notes []string
	switch {
	case s.NodesHidden:
		notes = append(notes, "You may not list nodes: domains come from what the pods were pinned to, and nothing can be said about free capacity.")
	case s.OthersHidden:
		notes = append(notes, "You may not list the pods of other namespaces: nothing can be said about free capacity.")
	}
	for _, g := range graphs {
		c := meta.FindStatusCondition(g.dgd.Status.Conditions, nvidiav1beta1.ConditionTopologyLevelsAvailable)
		if c != nil && c.Status == "False" {
			notes = append(notes, fmt.Sprintf("%s/%s: %s.", g.dgd.Namespace, g.dgd.Name, c.Message))
		}
	}
	noted := map[string]bool{}
	for _, g := range graphs {
		if t := s.find(g.view.name); t != nil && s.Topology == nil && !noted[t.Name] && !g.view.equal(current(t)) {
			noted[t.Name] = true
			notes = append(notes, fmt.Sprintf("ClusterTopology %s has other levels now (%s); the tree shows those that the pods were placed by.",
				t.Name, strings.Join(domains(current(t).levels), " > ")))
		}
	}
	return notes
}
