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

// graphChecks are the rules for the entire deployment, in the order in which users read the errors.
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
	{"topology name", topologyNamed},
	{"deployment constraint", deploymentConstraint},
	{"distinct hosts on one host", func(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList { return distinctOnHost(dgd, nil) }},
}

// componentChecks are the rules for each component.
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

// component is a component together with the context that checks need.
type component struct {
	*nvidiav1beta1.ComponentSpec
	// alpha is the component's v1alpha1 form, which may contain fields that v1beta1 cannot express. It is never nil; it is empty if the
	// component was written in v1beta1.
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

// components lists the components, each with its v1alpha1 form.
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

// template returns the component's pod template; empty if there is none.
func (s component) template() *corev1.PodTemplateSpec {
	if s.PodTemplate == nil {
		return &corev1.PodTemplateSpec{}
	}
	return s.PodTemplate
}

// podPath returns the path of a field in the component's pod spec.
func (s component) podPath(fields ...string) *field.Path {
	return s.path.Child("podTemplate", append([]string{"spec"}, fields...)...)
}

// mainPath returns the path of a field in the component's main container.
func (s component) mainPath(name string, more ...string) *field.Path {
	return s.podPath("containers").Key(nvidiav1beta1.MainContainerName).Child(name, more...)
}

// multinode reports whether each replica of the component spans several nodes.
func (s component) multinode() bool { return s.Multinode != nil }

// Graph returns all errors in a deployment that can be found without reading other objects.
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

// longestValue is the maximum number of runes of user text in an error.
const longestValue = 80

// short truncates a text to longestValue runes.
func short(s string) string {
	runes := []rune(s)
	if len(runes) <= longestValue {
		return s
	}
	return string(runes[:longestValue]) + "..."
}

// badValue returns an error about a text value. It truncates the value.
func badValue(kind field.ErrorType, path *field.Path, value, detail string, args ...any) *field.Error {
	return &field.Error{Type: kind, Field: path, BadValue: short(value), Detail: field.Say(detail, args...)}
}

// one returns a list with one error, so that checks can return a single error directly.
func one(err *field.Error) field.ErrorList {
	return field.ErrorList{err}
}
