// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

const (
	// AnnotationComputeDomain has Trellis make a ComputeDomain, which pods join. Its value names the domain inside the deployment: components of equal
	// values share one. On a deployment it is about all components whose main container is limited to GPUs, on the pods of a component about this one,
	// whatever the deployment says; [NoComputeDomain] is none.
	AnnotationComputeDomain = "trellis.dev/compute-domain"
	// AnnotationMNNVLGroup is Grove's annotation of the same meaning, on the pods of a component. Under the provider Grove it is left to Grove.
	AnnotationMNNVLGroup = "grove.io/mnnvl-group"
	// NoComputeDomain has a component join no domain.
	NoComputeDomain = "none"

	// computeDomainClaim is the name of the claim in pods.
	computeDomainClaim = "trellis-compute-domain"
	channelSuffix      = "-channel"
)

// addComputeDomain has pods join the ComputeDomain that the component asks for.
func (t *templater) addComputeDomain(spec *corev1.PodSpec, main *corev1.Container) {
	domain := t.computeDomain(main)
	if domain == "" || slices.ContainsFunc(spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.Name == computeDomainClaim }) {
		return
	}
	spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{
		Name: computeDomainClaim, ResourceClaimTemplateName: ptr.To(domainName(t.dgd, domain) + channelSuffix),
	})
	main.Resources.Claims = append(main.Resources.Claims, corev1.ResourceClaim{Name: computeDomainClaim})
}

// computeDomain is the name, inside the deployment, of the domain that the component joins; "" for none.
func (t *templater) computeDomain(main *corev1.Container) string {
	domain := ""
	if t.gpus(main) > 0 {
		domain = t.dgd.Annotations[AnnotationComputeDomain]
	}
	if template := t.spec.PodTemplate; template != nil {
		keys := []string{AnnotationMNNVLGroup, AnnotationComputeDomain}
		if t.provider == specs.Grove.Name {
			keys = keys[1:]
		}
		for _, key := range keys { // the last one counts
			if value := template.Annotations[key]; value != "" {
				domain = value
			}
		}
	}
	if domain == NoComputeDomain {
		return ""
	}
	return domain
}

// ComputeDomainsOf lists the ComputeDomains that Trellis makes for a deployment, by what its annotations call them, with the components whose pods join.
func ComputeDomainsOf(dgd *nvidiav1beta1.DynamoGraphDeployment) []nvlink.Shared {
	var out []nvlink.Shared
	for i := range dgd.Spec.Components {
		t := newTemplater(dgd, &dgd.Spec.Components[i], nvidiav1alpha1.AlphaOnlyService{})
		domain := t.computeDomain(t.mainContainer())
		if domain == "" {
			continue
		}
		at := slices.IndexFunc(out, func(one nvlink.Shared) bool { return one.Domain.Name == domain })
		if at < 0 {
			at, out = len(out), append(out, nvlink.Shared{Domain: nvlink.OfTemplate(domain)})
		}
		out[at].Components = append(out[at].Components, i)
	}
	return out
}

// mainContainer is that of the podTemplate, empty when it has none.
func (t *templater) mainContainer() *corev1.Container {
	if template := t.spec.PodTemplate; template != nil {
		if i := indexContainer(template.Spec.Containers, mainContainerName); i >= 0 {
			return &template.Spec.Containers[i]
		}
	}
	return &corev1.Container{}
}

// domainName is the name of a ComputeDomain. It is that of one incarnation of the deployment, since the spec of a ComputeDomain is immutable, and that of
// an earlier incarnation may still be there.
func domainName(dgd *nvidiav1beta1.DynamoGraphDeployment, domain string) string {
	name := dnsLabel(dgd.Name + "-" + domain)
	return hashed(name, string(dgd.UID)+"/"+dgd.Name+"/"+domain, maxName-len(channelSuffix))
}

// computeDomains returns the ComputeDomains that the pods of the graph join, by name. They are read from the pods: those of a scaling group that an earlier
// incarnation left, and that is adopted, keep joining the one that they name.
func (g *Graph) computeDomains() (domains []Object) {
	names := map[string]bool{}
	for i := range g.Components {
		for j := range g.Components[i].Roles {
			for _, claim := range g.Components[i].Roles[j].Template.Spec.ResourceClaims {
				name, ours := strings.CutSuffix(ptr.Deref(claim.ResourceClaimTemplateName, ""), channelSuffix)
				if claim.Name == computeDomainClaim && ours && !names[name] {
					names[name] = true
					domains = append(domains, g.computeDomain(name))
				}
			}
		}
	}
	return domains
}

// computeDomain makes one, of as many nodes as pods join.
func (g *Graph) computeDomain(name string) Object {
	domain := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"numNodes": int64(0),
			"channel":  map[string]any{"resourceClaimTemplate": map[string]any{"name": name + channelSuffix}},
		},
	}}
	domain.SetGroupVersionKind(nvlink.GroupVersion.WithKind(nvlink.Kind))
	meta := g.graphMeta(name)
	domain.SetName(meta.Name)
	domain.SetNamespace(meta.Namespace)
	domain.SetLabels(meta.Labels)
	return domain
}
