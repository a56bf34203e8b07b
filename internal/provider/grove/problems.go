// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"slices"
	"strings"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

// maxListed is the maximum number of names in a message.
const maxListed = 4

// Problems lists the reasons why this version of Grove would refuse the deployment or violate one of the deployment's requirements.
func Problems(g Input, d Schema) []string {
	out := d.problems(g)
	schedulers := map[string]string{}
	for _, sg := range render.SortedGroups(g.Groups) {
		for i := range sg.Spec.Roles {
			spec := &sg.Spec.Roles[i].Template.Spec
			if len(spec.TopologySpreadConstraints) > 0 {
				out = append(out, fmt.Sprintf("component %q has topologySpreadConstraints, which Grove refuses; remove them", sg.Spec.Component))
			}
			if t := sg.Spec.Topology; t != nil && t.SpreadDomain != "" {
				out = append(out, fmt.Sprintf("component %q has spreadDomain, which Grove cannot keep; remove it, or choose another provider",
					sg.Spec.Component))
			}
			if spec.NodeName != "" {
				out = append(out, fmt.Sprintf("component %q has nodeName, which Grove refuses; remove it", sg.Spec.Component))
			}
			schedulers[g.schedulerOf(spec.SchedulerName)] = sg.Spec.Component
		}
	}
	if len(schedulers) > 1 {
		out = append(out, fmt.Sprintf("the components name %d different schedulers, and Grove takes one; set schedulerName to the same, or "+
			"remove it", len(schedulers)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (g Input) schedulerOf(name string) string {
	if name == "" && g.Queue != "" {
		return "kai-scheduler"
	}
	return name
}

// problems lists required domains that the schema cannot express.
func (d Schema) problems(g Input) []string {
	var out []string
	for _, sg := range render.SortedGroups(g.Groups) {
		t := sg.Spec.Topology
		required := []string{constraint.OfGraph(t).Required, constraint.OfComponent(t).Required}
		for _, domain := range required {
			switch {
			case domain == "":
			case d.Shape == ShapeNone:
				return []string{"the installed Grove has no topology constraints; upgrade it, or choose another provider"}
			case d.Shape == ShapePackDomain && t.ClusterTopology != onlyTopology:
				return []string{fmt.Sprintf("the installed Grove has one topology, %q, and the deployment uses ClusterTopology %q; rename that, or "+
					"upgrade Grove", onlyTopology, t.ClusterTopology)}
			case !d.knows(domain):
				out = append(out, d.unknown(domain))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (d Schema) knows(domain string) bool {
	return bindingDomain.MatchString(domain) && (len(d.Domains) == 0 || slices.Contains(d.Domains, domain))
}

func (d Schema) unknown(domain string) string {
	if len(d.Domains) == 0 {
		return fmt.Sprintf("Grove takes domains that begin with a letter, and %q does not; rename the level in the ClusterTopology", domain)
	}
	return fmt.Sprintf("the installed Grove knows the domains [%s] only, and %q is none of them; rename the level, or upgrade Grove",
		strings.Join(d.Domains, ", "), domain)
}

// Limits lists the features of the deployment that this Grove supports less well than Trellis' own provider. The deployment runs in spite
// of these limits.
func Limits(g Input, d Schema) []string {
	t := constraint.TopologyOf(g.Groups)
	var out, unsaid, scaled, beyond, empty, several, uncounted []string
	if !d.prefers(constraint.OfGraph(t)) {
		unsaid = append(unsaid, "the deployment")
	}
	for _, sg := range render.SortedGroups(g.Groups) {
		if !d.prefers(constraint.OfComponent(sg.Spec.Topology)) {
			unsaid = append(unsaid, sg.Spec.Component)
		}
		least := render.MinAvailable(sg)
		if sg.Spec.Multinode && sg.Spec.Replicas > least && constraint.OfGraph(sg.Spec.Topology).Required != "" {
			if least == 1 {
				scaled = append(scaled, sg.Spec.Component)
			} else {
				beyond = append(beyond, sg.Spec.Component)
			}
		}
		if sg.Spec.Replicas == 0 && least == 1 {
			empty = append(empty, sg.Spec.Component)
		} else if sg.Spec.Replicas < least {
			several = append(several, sg.Spec.Component)
		}
		if worker := workerOf(sg); worker != nil && len(worker.Template.Spec.Containers[0].Command) == 0 {
			uncounted = append(uncounted, sg.Spec.Component)
		}
	}
	add := func(who []string, format string, args ...any) {
		if len(who) > 0 {
			out = append(out, list(who)+": "+fmt.Sprintf(format, args...))
		}
	}
	add(unsaid, "preferredPackDomain is not known to the installed Grove and has no effect")
	add(scaled, "Grove chooses the %s of each replica after the first on its own, so it may differ from the deployment's",
		constraint.OfGraph(t).Required)
	add(beyond, "Grove chooses the %s of each replica beyond minAvailable on its own, so it may differ from the deployment's",
		constraint.OfGraph(t).Required)
	add(several, "Grove starts minAvailable replicas and then scales them down")
	add(empty, "Grove starts one replica and then scales it to 0")
	add(uncounted, "the workers have no command, so that their index (TRELLIS_POD_INDEX) cannot be set")
	return out
}

// prefers reports whether the schema can express the preferred domain; true if there is no preferred domain.
func (d Schema) prefers(c constraint.Domains) bool {
	return c.Preferred == "" || d.Shape == ShapePack && d.knows(c.Preferred)
}

func workerOf(sg *trellisv1alpha1.ScalingGroup) *trellisv1alpha1.Role {
	if !sg.Spec.Multinode || len(sg.Spec.Roles) < 2 {
		return nil
	}
	return &sg.Spec.Roles[1]
}

func list(names []string) string {
	if len(names) > maxListed {
		names = limit.First(names, maxListed-1, "")
	}
	return strings.Join(names, ", ")
}
