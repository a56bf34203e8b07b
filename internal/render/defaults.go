// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Component types in the spelling of Dynamo's programs and labels.
const (
	typeFrontend = string(nvidiav1beta1.ComponentTypeFrontend)
	typeWorker   = string(nvidiav1beta1.ComponentTypeWorker)
	typePrefill  = string(nvidiav1beta1.ComponentTypePrefill)
	typeDecode   = string(nvidiav1beta1.ComponentTypeDecode)
	typePlanner  = string(nvidiav1beta1.ComponentTypePlanner)
	typeEPP      = string(nvidiav1beta1.ComponentTypeEPP)
)

// Ports on which Dynamo's programs listen.
const (
	portHTTP       = "http"
	portSystem     = "system"
	portNIXL       = "nixl"
	portMetrics    = "metrics"
	portGRPC       = "grpc"
	portGRPCHealth = "grpc-health"

	httpPort           int32 = 8000
	systemPort         int32 = 9090
	nixlPort           int32 = 19090
	plannerMetricsPort int32 = 9085
	grpcPort           int32 = 9002
	grpcHealthPort     int32 = 9003
)

const (
	mainContainerName           = nvidiav1beta1.MainContainerName
	defaultGraceSeconds   int64 = 60
	endpointPickerSeconds int64 = 130
)

// defaults are the default settings of a component type. The user's values override them field by field.
type defaults struct {
	command, args                []string
	ports                        []corev1.ContainerPort
	env                          []corev1.EnvVar
	liveness, readiness, startup *corev1.Probe
	graceSeconds                 int64
}

// isWorker reports whether the component serves a model.
func isWorker(componentType string) bool {
	switch componentType {
	case typeWorker, typePrefill, typeDecode:
		return true
	}
	return false
}

// defaultsOf returns the defaults of a component type for a version of the Dynamo runtime. runtime is nil if the version is unknown.
func defaultsOf(componentType, dynamoNamespace string, runtime *version.Version) defaults {
	switch {
	case componentType == typeFrontend:
		return frontendDefaults(dynamoNamespace, runtime)
	case isWorker(componentType):
		return workerDefaults(runtime)
	case componentType == typePlanner:
		return plannerDefaults()
	case componentType == typeEPP:
		return endpointPickerDefaults(dynamoNamespace)
	}
	return defaults{command: shell(), graceSeconds: defaultGraceSeconds}
}

func frontendDefaults(dynamoNamespace string, runtime *version.Version) defaults {
	d := defaults{
		command: []string{"python3"},
		args:    []string{"-m", "dynamo.frontend"},
		ports:   []corev1.ContainerPort{tcp(portHTTP, httpPort)},
		env: []corev1.EnvVar{
			{Name: "DYNAMO_PORT", Value: "8000"},
			{Name: "DYN_HTTP_PORT", Value: "8000"},
			{Name: "DYN_NAMESPACE_PREFIX", Value: dynamoNamespace},
		},
		liveness:     probe(httpGet("/live", portHTTP), 15, 10, 1, 3),
		readiness:    probe(httpGet("/health", portHTTP), 10, 10, 3, 3),
		graceSeconds: defaultGraceSeconds,
	}
	if since(runtime, slowFrontend) {
		d.startup = probe(httpGet("/live", portHTTP), 0, 10, 1, 30)
	}
	return d
}

func workerDefaults(runtime *version.Version) defaults {
	checked := since(runtime, checkedWorker)
	failures := int32(1)
	if checked {
		failures = 3
	}
	return defaults{
		command: shell(),
		ports:   []corev1.ContainerPort{tcp(portSystem, systemPort), tcp(portNIXL, nixlPort)},
		env: []corev1.EnvVar{
			{Name: "DYN_SYSTEM_ENABLED", Value: "true"},
			{Name: "DYN_SYSTEM_PORT", Value: "9090"},
			{Name: "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", Value: `["generate"]`},
			{Name: "DYN_HEALTH_CHECK_ENABLED", Value: strconv.FormatBool(checked)},
			{Name: "NIXL_TELEMETRY_ENABLE", Value: "n"},
			{Name: "NIXL_TELEMETRY_EXPORTER", Value: "prometheus"},
			{Name: "NIXL_TELEMETRY_PROMETHEUS_PORT", Value: "19090"},
			{Name: "DYN_FORWARDPASS_METRIC_PORT", Value: "20380"},
		},
		liveness:  probe(httpGet("/live", portSystem), 0, 5, 4, failures),
		readiness: probe(httpGet("/health", portSystem), 0, 10, 4, 3),
		// Loading a model can be slow, so the startup probe allows two hours before the liveness probe starts.
		startup:      probe(httpGet("/live", portSystem), 0, 10, 5, 720),
		graceSeconds: defaultGraceSeconds,
	}
}

func plannerDefaults() defaults {
	d := workerDefaults(nil)
	d.ports = []corev1.ContainerPort{tcp(portMetrics, plannerMetricsPort), tcp(portSystem, systemPort)}
	d.env = []corev1.EnvVar{
		{Name: "PLANNER_PROMETHEUS_PORT", Value: "9085"},
		{Name: "DYN_SYSTEM_PORT", Value: "9090"},
	}
	return d
}

func endpointPickerDefaults(dynamoNamespace string) defaults {
	health := corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: grpcHealthPort, Service: ptr.To("inference-extension")}}
	return defaults{
		ports: []corev1.ContainerPort{tcp(portGRPC, grpcPort), tcp(portGRPCHealth, grpcHealthPort), tcp(portMetrics, systemPort)},
		env: []corev1.EnvVar{
			{Name: "USE_STREAMING", Value: "true"},
			{Name: "RUST_LOG", Value: "info"},
			{Name: "DYN_ENFORCE_DISAGG", Value: "false"},
			{Name: "DYN_NAMESPACE_PREFIX", Value: dynamoNamespace},
		},
		liveness:     probe(health, 5, 10, 0, 0),
		readiness:    probe(health, 5, 10, 0, 0),
		startup:      probe(health, 0, 10, 0, 180),
		graceSeconds: endpointPickerSeconds,
	}
}

func shell() []string { return []string{"/bin/sh", "-c"} }

func tcp(name string, port int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP}
}

func httpGet(path, port string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port)}}
}

func probe(handler corev1.ProbeHandler, delay, period, timeout, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        handler,
		InitialDelaySeconds: delay,
		PeriodSeconds:       period,
		TimeoutSeconds:      timeout,
		FailureThreshold:    failures,
	}
}
