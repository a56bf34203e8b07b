// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"strconv"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Grove refuses a set whose name, a clique's and its scaling group's have more than this many characters together.
const (
	maxNames = 45
	// maxSetName leaves enough of it for a service's two names.
	maxSetName   = 21
	hashLength   = len("-01234567")
	leaderSuffix = "-ldr"
	workerSuffix = "-wkr"
)

// names of one deployment's objects in Grove: <deployment>, <component> and, for multinode, <component>-ldr and <component>-wkr, as Dynamo
// has them; shortened with a hash where Grove's limit demands it.
type names struct {
	set string
	// components by the user's name.
	components map[string]string
}

// SetName is the name of a deployment's PodCliqueSet.
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

// nameComponents is false when a service's name has to be shortened and the set's leaves no space for the hash.
func nameComponents(set string, groups []*trellisv1alpha1.ScalingGroup) (n names, fits bool) {
	n = names{set: set, components: map[string]string{}}
	taken := map[string]bool{}
	for _, multinode := range []bool{true, false} { // their cliques' names are given, those of others can give way
		for _, sg := range render.SortedGroups(groups) {
			if sg.Spec.Multinode != multinode {
				continue
			}
			name, limit := render.DNSLabel(sg.Spec.Service), componentLimit(sg, set)
			if len(name) > limit || clashes(taken, name, multinode) {
				if limit <= hashLength {
					return n, false
				}
				name = render.Hashed(name, sg.Spec.Service, limit)
			}
			taken[name] = true
			if multinode {
				taken[name+leaderSuffix], taken[name+workerSuffix] = true, true
			}
			n.components[sg.Spec.Service] = name
		}
	}
	return n, true
}

// clashes: two cliques of one set cannot have one name.
func clashes(taken map[string]bool, name string, multinode bool) bool {
	return taken[name] || multinode && (taken[name+leaderSuffix] || taken[name+workerSuffix])
}

func componentLimit(sg *trellisv1alpha1.ScalingGroup, set string) int {
	if sg.Spec.Multinode {
		return (maxNames - len(set) - len(leaderSuffix)) / 2
	}
	return maxNames - len(set)
}

// of is the name of a service's clique or scaling group within the set; object is that of the object Grove makes of it.
func (n names) of(sg *trellisv1alpha1.ScalingGroup) string { return n.components[sg.Spec.Service] }

func (n names) object(sg *trellisv1alpha1.ScalingGroup) string { return objectName(n.set, n.of(sg)) }

// objectName is the name that Grove gives the object of a part of a set.
func objectName(set, part string) string { return set + "-0-" + part }

// address of pod index of a replica; replica is a number or a variable that holds it.
func (n names) address(sg *trellisv1alpha1.ScalingGroup, replica string, index int32) string {
	clique, pod := n.of(sg)+leaderSuffix, index
	if index > 0 {
		clique, pod = n.of(sg)+workerSuffix, index-1
	}
	return n.object(sg) + "-" + replica + "-" + clique + "-" + strconv.Itoa(int(pod)) + "." + n.set + "-0." + sg.Namespace + ".svc"
}
