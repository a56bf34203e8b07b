// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// What names the queue of KAI Scheduler: on the deployment itself, under the providers that KAI schedules for. KAI reads the label on pods.
const (
	AnnotationQueue = "nvidia.com/kai-scheduler-queue"
	LabelQueue      = "kai.scheduler/queue"
)

// annotationsNotActedOn mean something to other operators of the kind, and nothing here yet.
var annotationsNotActedOn = []string{
	specs.AnnotationGroveUpdate,
	AnnotationQueue,
	"nvidia.com/volcano-queue",
	specs.AnnotationWorkloadProvider,
}

// Ignored is a field that is accepted and not acted on.
type Ignored struct {
	Path *field.Path
	// Provider is the one that does nothing about it, where others do.
	Provider string
}

var ownAnnotations = field.NewPath("metadata", "annotations")

// NotActedOn lists the fields of a deployment that Trellis accepts and does nothing about: first the deployment's own, then each component's by
// name. preset is the operator's provider, as in ChooseProvider. Deprecated and removed fields are not among them; admission has words of its own
// for those. alpha is what only v1alpha1 can say of it; empty for what cannot be read, and so is ignored.
func NotActedOn(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly, preset string) []Ignored {
	provider := specs.Named(ChooseProvider(dgd, preset).Name)
	var paths []Ignored
	add := func(set bool, path *field.Path) {
		if set {
			paths = append(paths, Ignored{Path: path})
		}
	}
	annotations := func(path *field.Path, annotations map[string]string) {
		for _, key := range annotationsNotActedOn {
			_, set := annotations[key]
			acted := path == ownAnnotations && (key == specs.AnnotationWorkloadProvider || key == AnnotationQueue && provider.Queued || slices.Contains(provider.ActsOn, key))
			add(set && !acted, path.Key(key))
		}
		for _, key := range append([]string{AnnotationDistinctHosts}, rollout.Annotations...) { // who makes the pods places and replaces them
			value, set := annotations[key]
			if set && !provider.Planned && value != rollout.StrategyRollingUpdate && value != "false" {
				paths = append(paths, Ignored{path.Key(key), provider.Name})
			}
		}
		_, set := annotations[AnnotationGenerations]
		add(set && path != ownAnnotations, path.Key(AnnotationGenerations))
		for _, key := range rollout.SharedAnnotations {
			_, set := annotations[key]
			add(set && path != ownAnnotations, path.Key(key))
			if set && path == ownAnnotations && !provider.Planned {
				paths = append(paths, Ignored{path.Key(key), provider.Name})
			}
		}
	}
	annotations(ownAnnotations, dgd.Annotations)
	annotations(field.NewPath("spec", "annotations"), dgd.Spec.Annotations)
	if whole := dgd.Spec.TopologyConstraint; whole != nil && whole.PreferredSpreadDomain != "" && !provider.Planned {
		paths = append(paths, spreadIgnored(field.NewPath("spec"), provider))
	}
	ignored := func(path *field.Path) bool {
		return slices.Contains(alpha.Ignored, path.In(nvidiav1alpha1.GroupVersion.Version))
	}
	_, known := setOverride(dgd)
	override, experimental := field.NewPath("spec", "providerOverride"), field.NewPath("spec", "experimental")
	add(dgd.Spec.ProviderOverride != nil && (!provider.Overrides || !known) || ignored(override), override)
	add(ignored(experimental), experimental)
	for _, c := range Components(dgd) {
		component := PathOf(dgd, c.Name)
		if c.PodTemplate != nil {
			annotations(component.Child("podTemplate", "metadata", "annotations"), c.PodTemplate.Annotations)
			add(c.Multinode == nil && c.PodTemplate.Annotations[AnnotationDistinctHosts] == "true",
				component.Child("podTemplate", "metadata", "annotations").Key(AnnotationDistinctHosts))
		}
		own := alpha.Services[c.Name]
		floor := c.MinAvailable != nil && *c.MinAvailable > 1 && !provider.Overrides && !placedAsGang(dgd, c)
		add(floor, component.Child("minAvailable"))
		if own := c.TopologyConstraint; own != nil && own.PreferredSpreadDomain != "" && !provider.Planned {
			paths = append(paths, spreadIgnored(component, provider))
		}
		within := func(set bool, path *field.Path) { add(set || ignored(path), path) }
		componentNotActedOn(c, &own, component, within)
		overridesNotActedOn(c, provider.Overrides, component, within)
	}
	return paths
}

// spreadIgnored is the preferred spread below a path, which only planned providers act on.
func spreadIgnored(path *field.Path, provider specs.Spec) Ignored {
	return Ignored{path.Child("topologyConstraint", "preferredSpreadDomain"), provider.Name}
}

// placedAsGang says that the replicas of a component wait until they have a place, under the providers that plan here.
func placedAsGang(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec) bool {
	_, multinode := c.PodsPerReplica()
	whole := dgd.Spec.TopologyConstraint
	return multinode || c.TopologyConstraint != nil || constraint.FromAnnotations(dgd).Set() ||
		whole != nil && (whole.PackDomain != "" || whole.PreferredPackDomain != "" || whole.SpreadDomain != "" || whole.PreferredSpreadDomain != "")
}

func componentNotActedOn(spec *nvidiav1beta1.ComponentSpec, alpha *nvidiav1alpha1.AlphaOnlyService, path *field.Path, add func(set bool, path *field.Path)) {
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

// overridesNotActedOn: of overrides, where the provider acts on any, only what is understood is acted on.
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

// LaunchWarnings says what the user has to know about how multinode services start. alpha is what only v1alpha1 can say of the deployment.
func LaunchWarnings(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly) []field.Text {
	var asWritten []string
	for _, c := range Components(dgd) {
		nodes, multinode := c.PodsPerReplica()
		if !multinode {
			continue
		}
		t := newTemplater(dgd, c, alpha.Services[c.Name])
		t.roles(nodes)
		if len(t.errs) == 0 && !t.launched { // with errors it is refused anyway
			asWritten = append(asWritten, c.Name)
		}
	}
	if len(asWritten) == 0 {
		return nil
	}
	return []field.Text{field.Say(
		"%s: how the pods form one program cannot be determined from the command, so each starts as written; it finds the others by $%s, $%s and $%s (%s)",
		field.Component(-1, "*").Child("multinode"), framework.EnvLeaderAddress, framework.EnvHosts, framework.EnvPodIndex, few(asWritten))}
}

// few lists at most three names: the API server cuts long warnings.
func few(names []string) string { return limit.Join(names, len(names), 3, ", ") }
