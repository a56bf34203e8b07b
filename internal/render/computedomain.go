// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

const (
	// AnnotationComputeDomain requests a ComputeDomain that pods join. The value is the domain's name inside the deployment: components
	// with equal values share a domain. On a deployment, the annotation applies to all components whose main container has a GPU limit. On
	// the pods of a component, it overrides the deployment's value; [NoComputeDomain] requests no domain.
	AnnotationComputeDomain = "trellis.dev/compute-domain"
	// AnnotationMNNVLGroup is Grove's annotation with the same meaning, on the pods of a component. Under Grove, Trellis ignores this
	// annotation, because Grove itself acts on it.
	AnnotationMNNVLGroup = "grove.io/mnnvl-group"
	// NoComputeDomain is the annotation value for components that join no ComputeDomain.
	NoComputeDomain = "none"
	// AnnotationComputeDomainPer sets which pods share a ComputeDomain: [PerName], the default, or [PerReplica]. Trellis reads it from the
	// same objects as [AnnotationComputeDomain].
	AnnotationComputeDomainPer = "trellis.dev/compute-domain-per"
	// PerName creates one ComputeDomain for all pods that request a domain of the same name.
	PerName = "name"
	// PerReplica creates one ComputeDomain for each replica of a component. Under Grove, PerReplica has the effect of [PerName], because
	// Grove makes the pods of all replicas from one template.
	PerReplica = "replica"

	// Names of the resource claims in pods: for a ComputeDomain that several replicas share, and for a replica's own ComputeDomain.
	computeDomainClaim = "trellis-compute-domain"
	replicaDomainClaim = "trellis-replica-compute-domain"
	channelSuffix      = "-channel"
)

// addComputeDomain adds a claim to the component's pods if the component requests a ComputeDomain.
func (t *templater) addComputeDomain(spec *corev1.PodSpec, main *corev1.Container) {
	domain := t.computeDomain(main)
	if domain == "" || slices.ContainsFunc(spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return joins(&c) }) {
		return
	}
	claim, name := computeDomainClaim, domainName(t.dgd, domain)
	if t.domainPerReplica() {
		claim, name = replicaDomainClaim, replicaDomainName(t.dgd, domain, t.name)
	}
	spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{
		Name: claim, ResourceClaimTemplateName: ptr.To(name + channelSuffix),
	})
	main.Resources.Claims = append(main.Resources.Claims, corev1.ResourceClaim{Name: claim})
}

// joins reports whether a claim of a pod joins a ComputeDomain that Trellis creates.
func joins(c *corev1.PodResourceClaim) bool {
	return c.Name == computeDomainClaim || c.Name == replicaDomainClaim
}

// ChannelsOf lists the names of the claim templates with which a pod joins the ComputeDomains that Trellis creates. The DRA driver creates
// these templates.
func ChannelsOf(spec *corev1.PodSpec) (templates []string) {
	for i := range spec.ResourceClaims {
		if c := &spec.ResourceClaims[i]; joins(c) && c.ResourceClaimTemplateName != nil {
			templates = append(templates, *c.ResourceClaimTemplateName)
		}
	}
	return templates
}

// WithoutChannels returns a pod spec without the claims that join Trellis' ComputeDomains. These claims allocate no device of a node, so
// placement ignores them.
func WithoutChannels(spec *corev1.PodSpec) *corev1.PodSpec {
	if len(ChannelsOf(spec)) == 0 {
		return spec
	}
	out := spec.DeepCopy()
	out.ResourceClaims = slices.DeleteFunc(out.ResourceClaims, func(c corev1.PodResourceClaim) bool { return joins(&c) })
	for _, containers := range [][]corev1.Container{out.InitContainers, out.Containers} {
		for i := range containers {
			claims := &containers[i].Resources.Claims
			*claims = slices.DeleteFunc(*claims, func(c corev1.ResourceClaim) bool {
				return c.Name == computeDomainClaim || c.Name == replicaDomainClaim
			})
		}
	}
	return out
}

// domainPerReplica reports whether each replica of the component has its own ComputeDomain.
func (t *templater) domainPerReplica() bool {
	return t.provider != specs.Grove.Name && t.settings()[AnnotationComputeDomainPer] == PerReplica
}

// computeDomain returns the name, inside the deployment, of the ComputeDomain that the component joins; "" for none.
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
		for _, key := range keys { // the last key wins
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

// ComputeDomainsOf lists the ComputeDomains that Trellis creates for a deployment, with the names that annotations give them. Each entry
// contains the indexes of the components whose pods join the domain.
func ComputeDomainsOf(dgd *nvidiav1beta1.DynamoGraphDeployment) []nvlink.Shared {
	var out []nvlink.Shared
	for i := range dgd.Spec.Components {
		t := newTemplater(dgd, &dgd.Spec.Components[i], nvidiav1alpha1.AlphaOnlyService{})
		domain := t.computeDomain(t.mainContainer())
		if domain == "" {
			continue
		}
		own := t.domainPerReplica()
		at := slices.IndexFunc(out, func(one nvlink.Shared) bool { return one.Domain.Name == domain && !own && !one.PerReplica })
		if at < 0 {
			at, out = len(out), append(out, nvlink.Shared{Domain: nvlink.OfTemplate(domain), PerReplica: own})
		}
		out[at].Components = append(out[at].Components, i)
	}
	return out
}

// mainContainer returns the main container of the podTemplate, or an empty container.
func (t *templater) mainContainer() *corev1.Container {
	if template := t.spec.PodTemplate; template != nil {
		if i := indexContainer(template.Spec.Containers, mainContainerName); i >= 0 {
			return &template.Spec.Containers[i]
		}
	}
	return &corev1.Container{}
}

// domainName returns the name of a ComputeDomain. The name contains a hash of the deployment's UID, because the spec of a ComputeDomain is
// immutable and the ComputeDomain of an earlier deployment of the same name may still exist.
func domainName(dgd *nvidiav1beta1.DynamoGraphDeployment, domain string) string {
	name := dnsLabel(dgd.Name + "-" + domain)
	return hashed(name, string(dgd.UID)+"/"+dgd.Name+"/"+domain, maxName-len(channelSuffix))
}

// replicaDomainName returns the common prefix of the ComputeDomain names of a component's replicas. Each name consists of this prefix and
// the replica's ordinal.
func replicaDomainName(dgd *nvidiav1beta1.DynamoGraphDeployment, domain, component string) string {
	name := dnsLabel(dgd.Name + "-" + domain + "-" + component)
	return hashed(name, string(dgd.UID)+"/"+dgd.Name+"/"+domain+"/"+component, maxName-ordinalLength-len(channelSuffix))
}

// joinOwnDomain makes a pod join the ComputeDomain of its replica.
func joinOwnDomain(spec *corev1.PodSpec, ordinal int32) {
	for i := range spec.ResourceClaims {
		if c := &spec.ResourceClaims[i]; c.Name == replicaDomainClaim && c.ResourceClaimTemplateName != nil {
			c.ResourceClaimTemplateName = ptr.To(ofReplica(*c.ResourceClaimTemplateName, ordinal) + channelSuffix)
		}
	}
}

// ofReplica returns the name of a replica's ComputeDomain. template is the claim template that the component's pod template names.
func ofReplica(template string, ordinal int32) string {
	return fmt.Sprintf("%s-%d", strings.TrimSuffix(template, channelSuffix), ordinal)
}

// ReplicaDomain returns the ComputeDomain of a scaling group's replica; nil if the replicas share a ComputeDomain or have none.
func ReplicaDomain(sg *trellisv1alpha1.ScalingGroup, ordinal int32) *unstructured.Unstructured {
	template := replicaDomainIn(sg.Spec.Roles)
	if template == "" {
		return nil
	}
	labels := groupSelector(sg.Spec.Graph, sg.Name)
	labels[LabelReplica], labels[LabelManagedBy] = strconv.Itoa(int(ordinal)), ManagedBy
	return computeDomain(metav1.ObjectMeta{Name: ofReplica(template, ordinal), Namespace: sg.Namespace, Labels: labels})
}

// ReplicaDomainLabels returns the labels that all ComputeDomains of a scaling group's replicas have.
func ReplicaDomainLabels(sg *trellisv1alpha1.ScalingGroup) map[string]string {
	return groupSelector(sg.Spec.Graph, sg.Name)
}

// replicaDomainIn returns the name of the claim template with which the pods of these roles join the ComputeDomain of their replica; "" for
// none. The name does not contain the replica's ordinal.
func replicaDomainIn(roles []trellisv1alpha1.Role) string {
	for i := range roles {
		for _, claim := range roles[i].Template.Spec.ResourceClaims {
			if claim.Name == replicaDomainClaim {
				return ptr.Deref(claim.ResourceClaimTemplateName, "")
			}
		}
	}
	return ""
}

// ReplicaDomains returns, for each component with a ComputeDomain per replica, the ComputeDomain of its first replica. The scalinggroup
// controller creates these ComputeDomains.
func (g *Graph) ReplicaDomains() (domains []Object) {
	for i := range g.Components {
		if template := replicaDomainIn(g.Components[i].Roles); template != "" {
			domains = append(domains, computeDomain(g.graphMeta(ofReplica(template, 0))))
		}
	}
	return domains
}

// computeDomains returns the ComputeDomains that the graph's pods share, without duplicates. It reads their names from the pod templates,
// because a scaling group adopted from an earlier deployment of the same name keeps its templates, which still name the earlier
// ComputeDomain.
func (g *Graph) computeDomains() (domains []Object) {
	names := map[string]bool{}
	for i := range g.Components {
		for j := range g.Components[i].Roles {
			for _, claim := range g.Components[i].Roles[j].Template.Spec.ResourceClaims {
				name, ours := strings.CutSuffix(ptr.Deref(claim.ResourceClaimTemplateName, ""), channelSuffix)
				if claim.Name == computeDomainClaim && ours && !names[name] {
					names[name] = true
					domains = append(domains, computeDomain(g.graphMeta(name)))
				}
			}
		}
	}
	return domains
}

// computeDomain makes a ComputeDomain. With numNodes 0, the pods that join the ComputeDomain determine its number of nodes.
func computeDomain(meta metav1.ObjectMeta) *unstructured.Unstructured {
	name := meta.Name
	domain := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"numNodes": int64(0),
			"channel":  map[string]any{"resourceClaimTemplate": map[string]any{"name": name + channelSuffix}},
		},
	}}
	domain.SetGroupVersionKind(nvlink.GroupVersion.WithKind(nvlink.Kind))
	domain.SetName(meta.Name)
	domain.SetNamespace(meta.Namespace)
	domain.SetLabels(meta.Labels)
	return domain
}
