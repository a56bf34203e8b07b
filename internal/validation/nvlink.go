// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/render"
)

// AsksForCliques reports whether the ComputeDomains in the namespace are relevant to a deployment: the deployment's topology has a level
// for NVLink cliques, and its pods name claim templates or request a ComputeDomain from Trellis.
func AsksForCliques(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) bool {
	return cliqueLevel(topology) >= 0 && len(nvlink.TemplatesOf(dgd))+len(render.ComputeDomainsOf(dgd)) > 0
}

func cliqueLevel(topology *grovev1alpha1.ClusterTopology) int {
	if topology == nil {
		return -1
	}
	return slices.IndexFunc(topology.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Key == nvlink.CliqueLabel })
}

// CliqueWarnings warns about pods that share a ComputeDomain but may be placed in different NVLink cliques, which share no memory. The
// warning names the field to set. Replicas of a component do not depend on each other, so each replica may have its own clique.
func CliqueWarnings(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology,
	domains []nvlink.ComputeDomain) []field.Text {
	clique := cliqueLevel(topology)
	if clique < 0 || packedAt(dgd, topology) >= clique {
		return nil
	}
	var lines []field.Text
	for _, shared := range slices.Concat(nvlink.SharedBy(dgd, domains), render.ComputeDomainsOf(dgd)) {
		fix, to := any(constraintPath.Child("packDomain")), topology.Spec.Levels[clique].Domain
		if len(shared.Components) == 1 {
			c := &dgd.Spec.Components[shared.Components[0]]
			if c.Multinode == nil || c.TopologyConstraint != nil && levelIndex(topology, c.TopologyConstraint.PackDomain) >= clique {
				continue
			}
			fix = field.Component(shared.Components[0], short(c.Name)).Child("topologyConstraint", "packDomain")
		}
		if annotated(dgd) { // annotations together with fields would be refused
			fix, to = "annotation "+constraint.AnnotationRequired, nvlink.CliqueLabel
		}
		names := make([]string, 0, len(shared.Components))
		for _, at := range shared.Components {
			names = append(names, short(dgd.Spec.Components[at].Name))
		}
		lines = append(lines, line(field.Say("pods of the ComputeDomain %s may be placed in two NVLink cliques, which share no memory: set %s "+
			"to %q (%s)",
			cut(shared.Domain.Name, 24), fix, short(to), enumerate(names, ", ", 40)), nil))
	}
	return lines
}

// annotated reports whether a deployment states its topology in annotations.
func annotated(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return constraint.FromAnnotations(dgd) != constraint.Annotated{}
}

// packedAt returns the index of the level that packs all pods of a deployment, from its field or annotation; -1 for none.
func packedAt(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) int {
	if c := dgd.Spec.TopologyConstraint; c != nil {
		return levelIndex(topology, c.PackDomain)
	}
	domain, _ := constraint.DomainOf(topology, constraint.FromAnnotations(dgd).Required)
	return levelIndex(topology, domain)
}

// checkDomainName checks the name of a ComputeDomain that a deployment requests from Trellis.
func checkDomainName(path *field.Path, annotations map[string]string) field.ErrorList {
	value, set := annotations[render.AnnotationComputeDomain]
	if !set || len(validation.IsDNS1123Label(value)) == 0 {
		return nil
	}
	return one(badValue(field.ErrorTypeInvalid, path.Key(render.AnnotationComputeDomain), value,
		"must be a name of lowercase letters, digits and '-': components with the same name share an NVLink domain; \"none\" means no domain"))
}
