// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"strconv"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Grove limits the names of a PodCliqueSet, a scaling group and a clique to a total length of maxNames.
const (
	maxNames = 45
	// maxSetName leaves enough space for the scaling group's name and the clique's name.
	maxSetName   = 21
	hashLength   = len("-01234567")
	leaderSuffix = "-ldr"
	workerSuffix = "-wkr"
)

// names holds the names of one deployment's objects in Grove: <deployment>, <component> and, for multinode, <component>-ldr and
// <component>-wkr, as in Dynamo. A name that exceeds Grove's limit is shortened and gets a hash.
type names struct {
	set string
	// components maps component names to the names of the components in Grove.
	components map[string]string
}

// SetName returns the name of a deployment's PodCliqueSet.
func SetName(g Input) string { return nameAll(g.Name, g.Groups).set }

func nameAll(deployment string, groups []*trellisv1alpha1.ScalingGroup) names {
	label := render.DNSLabel(deployment)
	if label != deployment {
		label = render.Hashed(label, deployment, max(len(label)+hashLength, maxSetName))
	}
	if label[0] >= '0' && label[0] <= '9' { // Grove makes a Service of this name, which has to begin with a letter
		label = "dgd-" + label
	}
	if n, fits := nameComponents(label, groups); fits {
		return n
	}
	n, _ := nameComponents(render.Shorten(label, deployment, maxSetName), groups)
	return n
}

// nameComponents chooses the names of the components in Grove. It returns false if a component's name needs a hash and the set's name
// leaves no space for the hash.
func nameComponents(set string, groups []*trellisv1alpha1.ScalingGroup) (n names, fits bool) {
	n = names{set: set, components: map[string]string{}}
	taken := map[string]bool{}
	for _, multinode := range []bool{true, false} { // multinode first: the names of their cliques are fixed
		for _, sg := range render.SortedGroups(groups) {
			if sg.Spec.Multinode != multinode {
				continue
			}
			name, limit := render.DNSLabel(sg.Spec.Component), componentLimit(sg, set)
			if len(name) > limit || clashes(taken, name, multinode) {
				if limit <= hashLength {
					return n, false
				}
				name = render.Hashed(name, sg.Spec.Component, limit)
			}
			taken[name] = true
			if multinode {
				taken[name+leaderSuffix], taken[name+workerSuffix] = true, true
			}
			n.components[sg.Spec.Component] = name
		}
	}
	return n, true
}

// clashes reports whether a clique in the set already has one of the names that the component needs.
func clashes(taken map[string]bool, name string, multinode bool) bool {
	return taken[name] || multinode && (taken[name+leaderSuffix] || taken[name+workerSuffix])
}

func componentLimit(sg *trellisv1alpha1.ScalingGroup, set string) int {
	if sg.Spec.Multinode {
		return (maxNames - len(set) - len(leaderSuffix)) / 2
	}
	return maxNames - len(set)
}

// of returns the name of a component's clique or scaling group within the set. object returns the name of the object that Grove makes from
// this clique or scaling group.
func (n names) of(sg *trellisv1alpha1.ScalingGroup) string { return n.components[sg.Spec.Component] }

func (n names) object(sg *trellisv1alpha1.ScalingGroup) string { return objectName(n.set, n.of(sg)) }

// objectName returns the name that Grove gives the object of a clique or scaling group in a set.
func objectName(set, part string) string { return set + "-0-" + part }

// address returns the DNS name of the pod with this index in a replica. replica is an ordinal or a reference to a variable.
func (n names) address(sg *trellisv1alpha1.ScalingGroup, replica string, index int32) string {
	clique, pod := n.of(sg)+leaderSuffix, index
	if index > 0 {
		clique, pod = n.of(sg)+workerSuffix, index-1
	}
	return n.object(sg) + "-" + replica + "-" + clique + "-" + strconv.Itoa(int(pod)) + "." + n.set + "-0." + sg.Namespace + ".svc"
}
