// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// gpus is the counted resource unless the graphs request another kind of device.
const gpus = "nvidia.com/gpu"

// counter counts one resource on nodes, in the same way as the planner.
type counter struct {
	cluster *topology.Cluster
	// resource is the counted resource; empty if nothing is counted. ignored is the resource that would be counted if the kube-scheduler
	// did not ignore it.
	resource, ignored string
	// asking are the shapes of the pods for which the counter determines the free capacity.
	asking []*topology.Shape
}

// newCounter chooses the resource to count for the pods of the graphs. It counts nothing if the user may not list the nodes or the pods of
// all namespaces.
func newCounter(s *Scene, graphs []*graphPods) counter {
	c := counter{cluster: s.Planner.Cluster()}
	if !s.NodesHidden && !s.OthersHidden {
		c.choose(s, graphs)
	}
	var groups []*trellisv1alpha1.ScalingGroup
	var pods []*corev1.Pod
	for _, g := range graphs {
		groups = append(groups, g.groups...)
		for i := range g.pods {
			g.pods[i].Amount = c.takes(g.pods[i].object)
			pods = append(pods, g.pods[i].object)
		}
	}
	c.asking = s.Planner.Asking(c.resource, groups, pods)
	return c
}

// choose chooses the resource that the graphs request, or else GPUs if a node offers them. An ignored resource is not counted, because it
// does not limit the number of pods.
func (c *counter) choose(s *Scene, graphs []*graphPods) {
	c.resource = devices(graphs)
	if c.resource == "" && slices.ContainsFunc(s.Nodes, func(n *corev1.Node) bool { return c.cluster.Offers(n.Name, gpus) }) {
		c.resource = gpus
	}
	if c.cluster.Ignores(c.resource) {
		c.resource, c.ignored = "", c.resource
	}
}

// takes returns the amount of the resource that a pod requests.
func (c *counter) takes(p *corev1.Pod) int64 {
	if c.resource == "" {
		return 0
	}
	return topology.Requested(p, c.resource)
}

// devices returns GPUs if any pod of the graphs requests them, else the extended resource that most pods request.
func devices(graphs []*graphPods) string {
	counts := map[string]int{}
	for _, g := range graphs {
		for _, p := range g.pods {
			for _, request := range topology.RequestsOf(p.object) {
				if strings.Contains(request.Name, "/") && !strings.Contains(request.Name, "kubernetes.io/") {
					counts[request.Name]++
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

// amount returns the used, free and total amount on a node; nil if nothing is counted.
func (c *counter) amount(node string) *Amount {
	if c.resource == "" {
		return nil
	}
	amount := Amount(c.cluster.CapacityOf(node, c.resource, c.asking...))
	return &amount
}

// state returns the reason why a node takes no pods; "" if it takes pods.
func (c *counter) state(node string) string {
	if why, closed := c.cluster.Closed(node, c.asking...); closed {
		return why.String()
	}
	return ""
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

// notes returns the notes on the drawing: missing rights, an ignored resource, conditions of the graphs that are False, and topologies
// whose levels have changed.
func (s *Scene) notes(graphs []*graphPods, count counter) []string {
	var notes []string
	switch {
	case s.NodesHidden:
		notes = append(notes, "You may not list nodes: domains come from what the pods were pinned to, and nothing can be said about free "+
			"capacity.")
	case s.OthersHidden:
		notes = append(notes, "You may not list the pods of other namespaces: nothing can be said about free capacity.")
	case count.ignored != "":
		notes = append(notes, fmt.Sprintf("%s is not counted: the kube-scheduler ignores it, as the operator's flag --ignored-resources says.",
			count.ignored))
	}
	for _, g := range graphs {
		for _, kind := range []string{nvidiav1beta1.ConditionTopologyLevelsAvailable, nvidiav1beta1.ConditionMoved} {
			if c := meta.FindStatusCondition(g.dgd.Status.Conditions, kind); c != nil && c.Status == "False" {
				notes = append(notes, fmt.Sprintf("%s/%s: %s.", g.dgd.Namespace, g.dgd.Name, c.Message))
			}
		}
		if outside := g.outside(); outside != "" {
			notes = append(notes, fmt.Sprintf("%s/%s: %s.", g.dgd.Namespace, g.dgd.Name, outside))
		}
	}
	noted := map[string]bool{}
	for _, g := range graphs {
		if t := s.World.Topology(g.view.name); t != nil && s.Topology == nil && !noted[t.Name] && !g.view.equal(current(t)) {
			noted[t.Name] = true
			notes = append(notes, fmt.Sprintf("%s %s has other levels now (%s); the tree shows those that the pods were placed by.",
				t.Source(), t.Name, strings.Join(domains(current(t).levels), " > ")))
		}
	}
	return notes
}
