// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
)

// graphChecks are the rules about the entire deployment, in the order users read the errors.
var graphChecks = []struct {
	name string
	run  func(*nvidiav1beta1.DynamoGraphDeployment) field.ErrorList
}{
	{"object name", objectName},
	{"annotations", annotations},
	{"provider", provider},
	{"one form of constraint", oneFormOfConstraint},
	{"number of services", componentCount},
	{"service names differ", componentNamesDiffer},
	{"object names differ", objectNamesDiffer},
	{"backend framework", backendFramework},
	{"rollout bounds", rolloutBounds},
	{"restart", restart},
	{"restart order", restartOrder},
	{"topology profile", topologyProfile},
	{"deployment constraint", deploymentConstraint},
	{"distinct hosts on one host", func(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList { return distinctOnHost(dgd, nil) }},
}

// componentChecks are the rules about each component.
var componentChecks = []struct {
	name string
	run  func(component) field.ErrorList
}{
	{"service name", componentName},
	{"service annotations", componentAnnotations},
	{"distinct hosts", distinctHosts},
	{"replicas", replicas},
	{"node count", nodeCount},
	{"roles", roles},
	{"resources", resources},
	{"scheduling", scheduling},
	{"compared lists", comparedLists},
	{"service constraint", componentConstraint},
	{"ingress", ingress},
	{"volume mounts", volumeMounts},
	{"shared memory", sharedMemory},
	{"endpoint picker", endpointPicker},
	{"frontend sidecar", frontendSidecar},
	{"device modes", deviceModes},
}

// component is one component, with what a check needs to name it.
type component struct {
	*nvidiav1beta1.ComponentSpec
	// alpha is the component as v1alpha1 has it, whose fields may hold what v1beta1 has no form for; empty, and never nil, where it was
	// written in v1beta1.
	alpha *nvidiav1alpha1.ServiceSpec
	pvcs  []nvidiav1alpha1.PVC
	name  string
	path  *field.Path
	graph *nvidiav1beta1.DynamoGraphDeployment
}

var (
	specPath       = field.NewPath("spec")
	componentsPath = field.Components
)

// componentsOf lists the components sorted by name.
func componentsOf(dgd *nvidiav1beta1.DynamoGraphDeployment) []component {
	components := make([]component, 0, len(dgd.Spec.Components))
	for _, c := range render.Components(dgd) {
		components = append(components, component{ComponentSpec: c, alpha: &nvidiav1alpha1.ServiceSpec{}, name: c.Name,
			path: field.Component(render.PlaceOf(dgd, c.Name), short(c.Name)), graph: dgd})
	}
	return components
}

// components lists the components with what v1alpha1 has of them.
func (w Written) components() []component {
	components := componentsOf(w.DynamoGraphDeployment)
	if w.Alpha == nil {
		return components
	}
	for i := range components {
		s := &components[i]
		s.pvcs = w.Alpha.Spec.PVCs
		if w.Alpha.Spec.Services[s.name] != nil {
			s.alpha = w.Alpha.Spec.Services[s.name]
		}
	}
	return components
}

// template of the component's pods, and its annotations; empty where there is none.
func (s component) template() *corev1.PodTemplateSpec {
	if s.PodTemplate == nil {
		return &corev1.PodTemplateSpec{}
	}
	return s.PodTemplate
}

// podPath is where a field of the component's pods is.
func (s component) podPath(fields ...string) *field.Path {
	return s.path.Child("podTemplate", append([]string{"spec"}, fields...)...)
}

// mainPath is where a field of the component's main container is.
func (s component) mainPath(name string, more ...string) *field.Path {
	return s.podPath("containers").Key(nvidiav1beta1.MainContainerName).Child(name, more...)
}

// multinode reports whether each replica of the component spans several nodes.
func (s component) multinode() bool { return s.Multinode != nil }

// Graph returns everything that is wrong with a deployment and can be determined from the object alone.
func Graph(dgd Written) field.ErrorList {
	if dgd.DynamoGraphDeployment == nil {
		return nil
	}
	var errs field.ErrorList
	if dgd.problem != nil {
		errs = one(badValue(field.ErrorTypeInvalid, annotationPath(nvidiav1alpha1.AnnotationSpecMemory), "", dgd.problem.Error()+
			"; remove the annotation"))
	}
	for _, check := range graphChecks {
		errs = append(errs, check.run(dgd.DynamoGraphDeployment)...)
	}
	if dgd.Alpha != nil {
		errs = append(errs, claims(dgd.Alpha.Spec.PVCs)...)
	}
	for _, s := range dgd.components() {
		for _, check := range componentChecks {
			errs = append(errs, check.run(s)...)
		}
	}
	return errs
}

// longestValue is how much of a user's text an error repeats.
const longestValue = 80

// short cuts a text that is too long to repeat.
func short(s string) string {
	runes := []rune(s)
	if len(runes) <= longestValue {
		return s
	}
	return string(runes[:longestValue]) + "..."
}

// badValue is an error about a text, which is cut when it is long.
func badValue(kind field.ErrorType, path *field.Path, value, detail string, args ...any) *field.Error {
	return &field.Error{Type: kind, Field: path, BadValue: short(value), Detail: field.Say(detail, args...)}
}

// one makes a list of one error, so that a check reads as a ladder of returns.
func one(err *field.Error) field.ErrorList {
	return field.ErrorList{err}
}
