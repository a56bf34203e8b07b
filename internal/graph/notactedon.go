// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strings"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/framework"
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

const ownAnnotations = "metadata.annotations"

// NotActedOn lists the paths of what a deployment says that Trellis accepts and does nothing about: first the deployment's own, then each
// service's by name. preset is the operator's provider, as in ChooseProvider. Deprecated and removed fields are not among them; admission has
// words of its own for those. A path that ends in "@Name" would be acted on under another provider than the one of that name. alpha is what only v1alpha1 can say of it; empty for what cannot be read, and so is ignored.
func NotActedOn(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly, preset string) []string {
	provider := specs.Named(ChooseProvider(dgd, preset).Name)
	var paths []string
	add := func(set bool, path string) {
		if set {
			paths = append(paths, path)
		}
	}
	annotations := func(path string, annotations map[string]string) {
		for _, key := range annotationsNotActedOn {
			_, set := annotations[key]
			acted := path == ownAnnotations && (key == specs.AnnotationWorkloadProvider || key == AnnotationQueue && provider.Queued || slices.Contains(provider.ActsOn, key))
			add(set && !acted, path+"["+key+"]")
		}
		for _, key := range rollout.Annotations { // who makes the pods replaces them
			value, set := annotations[key]
			add(set && !provider.Planned && value != rollout.StrategyRollingUpdate, path+"["+key+"]@"+provider.Name)
		}
		for _, key := range rollout.SharedAnnotations {
			_, set := annotations[key]
			add(set && path != ownAnnotations, path+"["+key+"]")
			add(set && path == ownAnnotations && !provider.Planned, path+"["+key+"]@"+provider.Name)
		}
	}
	annotations(ownAnnotations, dgd.Annotations)
	annotations("spec.annotations", dgd.Spec.Annotations)
	ignored := func(path string) bool { return slices.Contains(alpha.Ignored, path) }
	_, known := setOverride(dgd)
	add(dgd.Spec.ProviderOverride != nil && (!provider.Overrides || !known) || ignored("spec.providerOverride"), "spec.providerOverride")
	add(ignored("spec.experimental"), "spec.experimental")
	for _, c := range Components(dgd) {
		if c.PodTemplate != nil {
			annotations(servicePath(c.Name)+".annotations", c.PodTemplate.Annotations)
		}
		own := alpha.Services[c.Name]
		floor := c.MinAvailable != nil && *c.MinAvailable > 1 && !provider.Overrides && !placedAsGang(dgd, c)
		add(floor, servicePath(c.Name)+".minAvailable")
		ofService := func(set bool, field string) {
			path := servicePath(c.Name) + "." + field
			add(set || ignored(path), path)
		}
		componentNotActedOn(c, &own, ofService)
		overridesNotActedOn(c, provider.Overrides, ofService)
	}
	return paths
}

// placedAsGang says that the replicas of a component wait until they have a place, under the providers that plan here.
func placedAsGang(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec) bool {
	_, multinode := c.PodsPerReplica()
	whole := dgd.Spec.TopologyConstraint
	return multinode || c.TopologyConstraint != nil || constraint.FromAnnotations(dgd).Set() ||
		whole != nil && (whole.PackDomain != "" || whole.PreferredPackDomain != "")
}

func componentNotActedOn(spec *nvidiav1beta1.ComponentSpec, alpha *nvidiav1alpha1.AlphaOnlyService, add func(set bool, field string)) {
	componentType, _ := typesOf(spec, alpha)
	ingress := alpha.Ingress != nil && alpha.Ingress.Enabled
	frontend := componentType == typeFrontend
	add(ingress && !frontend, "ingress")
	add(ingress && frontend && alpha.Ingress.UseVirtualService, "ingress.useVirtualService")
	add(spec.EPPConfig != nil && componentType != typeEPP, "eppConfig")
	if e := spec.Experimental; e != nil {
		add(e.Checkpoint != nil, "checkpoint")
		add(e.GPUMemoryService != nil, "gpuMemoryService")
		add(e.Failover != nil, "failover")
		add(e.Grove != nil, "experimental.grove")
	}
}

// overridesNotActedOn: of overrides, where the provider acts on any, only what is understood is acted on.
func overridesNotActedOn(spec *nvidiav1beta1.ComponentSpec, acts bool, add func(set bool, field string)) {
	_, known := unitOverride(spec)
	add(spec.ProviderOverride != nil && (!acts || !known), "providerOverride")
	for _, role := range []string{nvidiav1beta1.RoleLeader, nvidiav1beta1.RoleWorker} {
		former := formerRole(spec, role)
		override := formerOverride(former)
		_, known = ofClique.constraintIn(override)
		r := spec.Role(role)
		replaced := r != nil && r.ProviderOverride != nil
		add(former != nil && (!acts || override == nil || !known || replaced), "multinode."+role)
	}
	for i := range spec.Roles {
		r := &spec.Roles[i]
		_, known = ofClique.constraintIn(r.ProviderOverride)
		add(r.ProviderOverride != nil && (!acts || !known), "roles["+r.Name+"].providerOverride")
	}
}

// LaunchWarnings says what the user has to know about how multinode services start. alpha is what only v1alpha1 can say of the deployment.
func LaunchWarnings(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha nvidiav1alpha1.AlphaOnly) []string {
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
	return []string{fmt.Sprintf(
		"spec.services[*].multinode: how the pods form one program cannot be determined from the command, so each starts as written; it finds the others by $%s, $%s and $%s (%s)",
		framework.EnvLeaderAddress, framework.EnvHosts, framework.EnvPodIndex, few(asWritten))}
}

// few lists at most three names: the API server cuts long warnings.
func few(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
