// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// The annotation and the label that name a queue of KAI Scheduler. Trellis reads the annotation on a deployment if the deployment's
// provider uses KAI's queues. KAI reads the label on pods.
const (
	AnnotationQueue = "nvidia.com/kai-scheduler-queue"
	LabelQueue      = "kai.scheduler/queue"
)

// annotationsNotActedOn are annotations that other operators read on DynamoGraphDeployments. Trellis ignores them, except annotations of
// the deployment itself for which actsOn returns true.
var annotationsNotActedOn = []string{
	specs.AnnotationGroveUpdate,
	AnnotationQueue,
	"nvidia.com/volcano-queue",
	specs.AnnotationWorkloadProvider,
}

// Ignored is a field that Trellis accepts but does not act on.
type Ignored struct {
	Path *field.Path
	// Provider is the deployment's provider if this provider does not act on the field, but other providers do. OnlyRoutes: under this
	// provider, the field affects only the routing of requests.
	Provider   string
	OnlyRoutes bool
}

var ownAnnotations = field.NewPath("metadata", "annotations")

// NotActedOn lists the fields of a deployment that Trellis accepts but does not act on: first the deployment's own fields, then the fields
// of each component, sorted by component name. preset is the operator's provider, as in ChooseProvider. The list omits deprecated and
// removed fields, for which admission has its own messages. alpha holds the fields that only v1alpha1 has.
func NotActedOn(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly, preset string) []Ignored {
	n := ignoredFields{provider: specs.Named(ChooseProvider(dgd, preset).Name), alpha: alpha}
	n.deployment(dgd)
	for _, c := range Components(dgd) {
		n.component(dgd, c)
	}
	return n.fields
}

// ignoredFields collects the fields of a deployment that Trellis does not act on.
type ignoredFields struct {
	provider specs.Spec
	alpha    nvidiav1alpha1.AlphaOnly
	fields   []Ignored
}

// add adds a field on which no provider acts, if the field is set.
func (n *ignoredFields) add(set bool, path *field.Path) {
	if set {
		n.fields = append(n.fields, Ignored{Path: path})
	}
}

// addOfProvider adds a field on which some providers act, but not the deployment's provider, if the field is set.
func (n *ignoredFields) addOfProvider(set bool, path *field.Path) {
	if set {
		n.fields = append(n.fields, Ignored{Path: path, Provider: n.provider.Name})
	}
}

// addOrUnread adds a field if it is set or if its v1alpha1 form cannot be read.
func (n *ignoredFields) addOrUnread(set bool, path *field.Path) { n.add(set || n.unread(path), path) }

func (n *ignoredFields) unread(path *field.Path) bool {
	return slices.Contains(n.alpha.Ignored, path.In(nvidiav1alpha1.GroupVersion.Version))
}

// deployment adds the fields outside components.
func (n *ignoredFields) deployment(dgd *nvidiav1beta1.DynamoGraphDeployment) {
	n.annotations(ownAnnotations, dgd.Annotations)
	n.annotations(field.NewPath("spec", "annotations"), dgd.Spec.Annotations)
	if whole := dgd.Spec.TopologyConstraint; whole != nil {
		n.preferredSpread(whole.PreferredSpreadDomain, field.NewPath("spec"))
	}
	_, known := setOverride(dgd)
	n.addOrUnread(dgd.Spec.ProviderOverride != nil && (!n.provider.Overrides || !known), field.NewPath("spec", "providerOverride"))
	n.addOrUnread(false, field.NewPath("spec", "experimental"))
	if e := dgd.Spec.Experimental; e != nil && e.KVTransferPolicy != nil && !n.provider.Planned {
		n.fields = append(n.fields, Ignored{field.NewPath("spec", "experimental", "kvTransferPolicy"), n.provider.Name, true})
	}
}

// component adds the fields of one component.
func (n *ignoredFields) component(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec) {
	path := PathOf(dgd, c.Name)
	if c.PodTemplate != nil {
		annotations := path.Child("podTemplate", "metadata", "annotations")
		n.annotations(annotations, c.PodTemplate.Annotations)
		n.add(c.Multinode == nil && c.PodTemplate.Annotations[AnnotationDistinctHosts] == "true", annotations.Key(AnnotationDistinctHosts))
	}
	n.preferences(dgd, c, path.Child("podTemplate", "spec"))
	floor := c.MinAvailable != nil && *c.MinAvailable > 1
	n.add(floor && !n.provider.Overrides && !placedAsGang(dgd, c), path.Child("minAvailable"))
	if own := c.TopologyConstraint; own != nil {
		n.preferredSpread(own.PreferredSpreadDomain, path)
	}
	own := n.alpha.Services[c.Name]
	componentNotActedOn(c, &own, path, n.addOrUnread)
	overridesNotActedOn(c, n.provider.Overrides, path, n.addOrUnread)
}

// preferences adds the preferred affinity and anti-affinity rules and the soft spread constraints. No scheduler scores these rules for a
// pod that is pinned to its host.
func (n *ignoredFields) preferences(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec, path *field.Path) {
	if c.PodTemplate == nil || !n.provider.Planned || !placedAsGang(dgd, c) {
		return
	}
	const preferred = "preferredDuringSchedulingIgnoredDuringExecution"
	if a := c.PodTemplate.Spec.Affinity; a != nil {
		near, away := a.PodAffinity, a.PodAntiAffinity
		n.addOfProvider(near != nil && len(near.PreferredDuringSchedulingIgnoredDuringExecution) > 0,
			path.Child("affinity", "podAffinity", preferred))
		n.addOfProvider(away != nil && len(away.PreferredDuringSchedulingIgnoredDuringExecution) > 0,
			path.Child("affinity", "podAntiAffinity", preferred))
	}
	n.addOfProvider(slices.ContainsFunc(c.PodTemplate.Spec.TopologySpreadConstraints, func(s corev1.TopologySpreadConstraint) bool {
		return s.WhenUnsatisfiable == corev1.ScheduleAnyway
	}), path.Child("topologySpreadConstraints"))
}

// annotations adds the ignored annotations at path: the annotations of the deployment, of its spec, or of one podTemplate.
func (n *ignoredFields) annotations(path *field.Path, annotations map[string]string) {
	own := path == ownAnnotations
	has := func(key string) bool { _, set := annotations[key]; return set }
	for _, key := range slices.Concat(annotationsNotActedOn, rollout.FormerAnnotations) {
		n.add(has(key) && (!own || !n.actsOn(key)), path.Key(key))
	}
	for _, key := range append([]string{AnnotationDistinctHosts}, rollout.Annotations...) { // the maker of the pods acts on them
		value := annotations[key]
		n.addOfProvider(has(key) && !n.provider.Planned && value != rollout.StrategyRollingUpdate && value != "false", path.Key(key))
	}
	n.add(has(AnnotationGenerations) && !own, path.Key(AnnotationGenerations))
	for _, key := range rollout.SharedAnnotations {
		n.add(has(key) && !own, path.Key(key))
		n.addOfProvider(has(key) && own && !n.provider.Planned, path.Key(key))
	}
}

// actsOn reports whether the provider acts on an annotation of the deployment.
func (n *ignoredFields) actsOn(key string) bool {
	return key == specs.AnnotationWorkloadProvider || key == AnnotationQueue && n.provider.Queued || slices.Contains(n.provider.ActsOn, key)
}

// preferredSpread adds the preferred spread domain of the deployment or component at path. Only planned providers act on it.
func (n *ignoredFields) preferredSpread(domain string, path *field.Path) {
	n.addOfProvider(domain != "" && !n.provider.Planned, path.Child("topologyConstraint", "preferredSpreadDomain"))
}

// placedAsGang reports whether the replicas of a component are placed as gangs under planned providers.
func placedAsGang(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec) bool {
	_, multinode := c.PodsPerReplica()
	whole := dgd.Spec.TopologyConstraint
	return multinode || c.TopologyConstraint != nil || constraint.FromAnnotations(dgd).Set() ||
		whole != nil && (whole.PackDomain != "" || whole.PreferredPackDomain != "" || whole.SpreadDomain != "" ||
			whole.PreferredSpreadDomain != "")
}

func componentNotActedOn(spec *nvidiav1beta1.ComponentSpec, alpha *nvidiav1alpha1.AlphaOnlyService, path *field.Path, add func(set bool,
	path *field.Path)) {
	componentType, _ := typesOf(spec, alpha)
	ingress := alpha.Ingress != nil && alpha.Ingress.Enabled
	frontend := componentType == typeFrontend
	add(ingress && !frontend, path.Child("ingress"))
	add(ingress && frontend && alpha.Ingress.UseVirtualService, path.Child("ingress", "useVirtualService"))
	add(spec.EPPConfig != nil && componentType != typeEPP, path.Child("eppConfig"))
	if e, path := spec.Experimental, path.Child("experimental"); e != nil {
		add(e.Checkpoint != nil, path.Child("checkpoint"))
		add(e.GPUMemoryService != nil, path.Child("gpuMemoryService"))
		add(e.Failover != nil, path.Child("failover"))
		add(e.Grove != nil, path.Child("grove"))
	}
}

// overridesNotActedOn adds the overrides of a component: all overrides if the provider acts on none, otherwise the invalid overrides.
func overridesNotActedOn(spec *nvidiav1beta1.ComponentSpec, acts bool, path *field.Path, add func(set bool, path *field.Path)) {
	_, known := unitOverride(spec)
	add(spec.ProviderOverride != nil && (!acts || !known), path.Child("providerOverride"))
	for _, role := range []string{nvidiav1beta1.RoleLeader, nvidiav1beta1.RoleWorker} {
		former := formerRole(spec, role)
		override := formerOverride(former)
		_, known = ofClique.constraintIn(override)
		r := spec.Role(role)
		replaced := r != nil && r.ProviderOverride != nil
		add(former != nil && (!acts || override == nil || !known || replaced), path.Child("multinode", role))
	}
	for i := range spec.Roles {
		r := &spec.Roles[i]
		_, known = ofClique.constraintIn(r.ProviderOverride)
		add(r.ProviderOverride != nil && (!acts || !known), path.Child("roles").Key(r.Name).Child("providerOverride"))
	}
}
