// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// graphChecks are the rules about the deployment as a whole, in the order users read the errors.
var graphChecks = []struct {
	name string
	run  func(*nvidiav1beta1.DynamoGraphDeployment) field.ErrorList
}{
	{"object name", objectName},
	{"annotations", annotations},
	{"engine", engine},
	{"one form of constraint", oneFormOfConstraint},
	{"number of services", serviceCount},
	{"service names differ", serviceNamesDiffer},
	{"object names differ", objectNamesDiffer},
	{"claims", claims},
	{"backend framework", backendFramework},
	{"rollout bounds", rolloutBounds},
	{"restart", restart},
	{"restart order", restartOrder},
	{"topology profile", topologyProfile},
	{"deployment constraint", deploymentConstraint},
}

// serviceChecks are the rules about each service.
var serviceChecks = []struct {
	name string
	run  func(service) field.ErrorList
}{
	{"service name", serviceName},
	{"service annotations", serviceAnnotations},
	{"replicas", replicas},
	{"node count", nodeCount},
	{"resources", resources},
	{"scheduling", scheduling},
	{"service constraint", serviceConstraint},
	{"ingress", ingress},
	{"volume mounts", volumeMounts},
	{"shared memory", sharedMemory},
	{"endpoint picker", endpointPicker},
	{"frontend sidecar", frontendSidecar},
	{"device modes", deviceModes},
}

// service is one entry of spec.services, with what a check needs to name it.
type service struct {
	*nvidiav1beta1.ServiceSpec
	name  string
	path  *field.Path
	graph *nvidiav1beta1.DynamoGraphDeployment
}

var (
	specPath     = field.NewPath("spec")
	servicesPath = specPath.Child("services")
)

// servicesOf lists the services sorted by name. An entry without a value is an empty service.
func servicesOf(dgd *nvidiav1beta1.DynamoGraphDeployment) []service {
	services := make([]service, 0, len(dgd.Spec.Services))
	for _, name := range slices.Sorted(maps.Keys(dgd.Spec.Services)) {
		spec := dgd.Spec.Services[name]
		if spec == nil {
			spec = &nvidiav1beta1.ServiceSpec{}
		}
		services = append(services, service{ServiceSpec: spec, name: name, path: servicesPath.Key(short(name)), graph: dgd})
	}
	return services
}

// multinode says whether each replica of the service spans several nodes.
func (s service) multinode() bool { return s.Multinode != nil }

// Graph returns everything that is wrong with a deployment and can be told from the object alone.
func Graph(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	if dgd == nil {
		return nil
	}
	var errs field.ErrorList
	for _, check := range graphChecks {
		errs = append(errs, check.run(dgd)...)
	}
	for _, s := range servicesOf(dgd) {
		for _, check := range serviceChecks {
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
func badValue(kind field.ErrorType, path *field.Path, value, detail string) *field.Error {
	return &field.Error{Type: kind, Field: path.String(), BadValue: short(value), Detail: detail}
}

// one makes a list of one error, so that a check reads as a ladder of returns.
func one(err *field.Error) field.ErrorList {
	return field.ErrorList{err}
}
