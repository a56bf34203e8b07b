// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Group is a tree of pods and groups. Either all its pods are placed or none. Every group may require a domain of its own inside its
// parent's domain.
type Group struct {
	// Name is the name of the group in messages; siblings have different names.
	Name string
	// Required is the level whose domain must hold everything in the group; NoLevel: anywhere inside the parent's domain. Preferred is a
	// narrower level, which is tried first; then come broader levels up to Required.
	Required, Preferred int
	// Within is a domain that must hold the group (an anchor); nil: the parent's domain. Hint is a domain that is tried first.
	Within, Hint topology.Path
	// Apart places each of Pods on a different host. It excludes the hosts of the pods whose IDs are in On.
	Apart  bool
	On     []string
	Pods   []Pod
	Groups []*Group

	// near are domains in use, which are tried first for a preferred level. want are later replicas that the choice of a domain considers.
	near []topology.Path
	want [][]Pod
	// spread is set on a group that chooses a domain for a replica of a spread component; members is set on a group whose subgroups are the
	// replicas of one component.
	spread  *spreading
	members bool
	// head is the index of a component plus 1 if the group is the component's head in a base gang; otherwise 0.
	head int
	// among lists domains, one of which must hold the group; nil: any domain.
	among []topology.DomainID
}

// PlanGroup places all pods of one group or none, and reserves capacity for these pods in the cluster.
func PlanGroup(c *topology.Cluster, levels topology.Levels, nodeSelector map[string]string, g *Group, o Options) (*GroupResult, *Refusal) {
	t := c.Tree(levels, nodeSelector)
	u, s := prepare(t, g), newSearch(c, t, o)
	if !s.place(u, topology.Root) {
		return nil, s.refusal(u, topology.Root)
	}
	s.reserve(u)
	return groupResult(c, t, u, g), nil
}

// Locate finds and reserves capacity in a domain for released pods that are pinned to this domain but not to a host, for example by an
// earlier version of the operator. It returns the node per pod ID. If not all pods fit, it reserves nothing.
func Locate(c *topology.Cluster, within topology.Path, place Place, pods []Pod) (map[string]string, bool) {
	t := c.Tree(place.Levels, place.NodeSelector)
	g := &Group{Required: topology.NoLevel, Preferred: topology.NoLevel, Within: within, Pods: pods}
	u, s := prepare(t, g), newSearch(c, t, Options{})
	if !s.place(u, topology.Root) {
		return nil, false
	}
	s.reserve(u)
	nodes := make(map[string]string, len(pods))
	for _, d := range u.own {
		for i, p := range d.pods {
			nodes[p.ID] = c.NodeName(d.hosts[i])
		}
	}
	return nodes, true
}

// reserve turns the taken capacity of a unit into reservations, each pinned to the domain of the innermost group that contains the pod.
func (s *search) reserve(u *unit) {
	s.settle()
	for _, c := range u.total {
		s.cluster.Expect(c.pods)
	}
	u.all(func(x *unit) {
		if len(x.own) == 0 {
			return
		}
		pin := s.tree.Labels(x.domain)
		for _, d := range x.own {
			for i, p := range d.pods {
				s.cluster.Reserve(p.ID, d.hosts[i], d.view, p.Shape, pin)
			}
		}
	})
}

func groupResult(c *topology.Cluster, t *topology.Tree, u *unit, g *Group) *GroupResult {
	r := &GroupResult{Name: g.Name, Domain: t.Path(u.domain), Pods: podResults(c, u)}
	for _, sub := range g.Groups {
		for _, x := range u.subs {
			if x.group == sub {
				r.Groups = append(r.Groups, groupResult(c, t, x, sub))
			}
		}
	}
	return r
}

// podResults lists the planned nodes of a unit's own pods, in the order of the group's pods.
func podResults(c *topology.Cluster, u *unit) []PodResult {
	results := make([]PodResult, 0, len(u.group.Pods))
	next := make([]int, len(u.own))
	for _, p := range u.group.Pods {
		for i, d := range u.own {
			if next[i] < len(d.pods) && d.pods[next[i]].ID == p.ID {
				results = append(results, PodResult{ID: p.ID, Name: p.Name, Node: c.NodeName(d.hosts[next[i]])})
				next[i]++
				break
			}
		}
	}
	return results
}
