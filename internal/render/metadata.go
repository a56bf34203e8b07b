// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// inheritedAnnotations on a deployment hold for all its components.
var inheritedAnnotations = []string{
	annotationEnableMetrics, annotationDiscoveryBackend, annotationDiscoveryMode, annotationVLLMExecutor, annotationOriginVersion,
	AnnotationDistinctHosts,
	AnnotationComputeDomain, AnnotationComputeDomainPer,
}

// dynamoNamespace keeps graphs apart inside Dynamo: <Kubernetes namespace>-<deployment>.
func (t *templater) dynamoNamespace() string { return dynamoNamespace(t.dgd, t.spec) }

func dynamoNamespace(dgd *nvidiav1beta1.DynamoGraphDeployment, spec *nvidiav1beta1.ComponentSpec) string {
	if spec.GlobalDynamoNamespace {
		return "dynamo"
	}
	return dgd.Namespace + "-" + dgd.Name
}

// labels of everything made for the component. The user's win except where selectors and Dynamo itself rely on them.
func (t *templater) labels() map[string]string {
	labels := map[string]string{
		LabelSelector:  LabelValue(dnsLabel(t.dgd.Name) + "-" + dnsLabel(t.name)),
		LabelComponent: LabelValue(t.name),
	}
	setIf(labels, LabelSubComponentType, t.subComponentType)
	if t.settings()[annotationEnableMetrics] != "false" {
		labels[LabelMetricsEnabled] = "true"
	}
	if t.spec.ModelRef != nil {
		labels[LabelBaseModelHash] = shortHash(t.spec.ModelRef.Name)
	}
	if t.discoversThroughKubernetes() {
		labels[LabelDiscoveryBackend] = discoveryKubernetes
		labels[LabelDiscoveryEnabled] = "true"
	}
	maps.Copy(labels, t.dgd.Spec.Labels)
	maps.Copy(labels, t.alpha.Labels)
	t.systemLabels(labels)
	return labels
}

func (t *templater) systemLabels(labels map[string]string) {
	labels[LabelGraph] = LabelValue(t.dgd.Name)
	labels[LabelNamespace] = LabelValue(t.dynamoNamespace())
	setIf(labels, LabelComponentType, t.componentType)
}

func setIf(labels map[string]string, key, text string) {
	if text != "" {
		labels[key] = LabelValue(text)
	}
}

// inherited are the annotations of a deployment that hold for all its components.
func inherited(dgd *nvidiav1beta1.DynamoGraphDeployment) map[string]string {
	annotations := map[string]string{}
	for _, key := range inheritedAnnotations {
		if value, ok := dgd.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	return annotations
}

// annotations of everything made for the component but its pods.
func (t *templater) annotations() map[string]string {
	annotations := inherited(t.dgd)
	maps.Copy(annotations, t.dgd.Spec.Annotations)
	maps.Copy(annotations, t.alpha.Annotations)
	return annotations
}

// settings are the annotations that hold for the component's pods: the deployment's, and over them those of its podTemplate.
func (t *templater) settings() map[string]string {
	annotations := inherited(t.dgd)
	maps.Copy(annotations, t.dgd.Spec.Annotations)
	if template := t.spec.PodTemplate; template != nil {
		maps.Copy(annotations, template.Annotations)
	}
	return annotations
}

func (t *templater) podLabels() map[string]string {
	labels := t.labels()
	if template := t.spec.PodTemplate; template != nil {
		maps.Copy(labels, template.Labels)
	}
	t.systemLabels(labels)
	delete(labels, LabelWorkerHash) // the user's own is no generation
	setIf(labels, LabelWorkerHash, t.generation)
	if isWorker(t.componentType) && hasPicker(t.dgd) {
		labels[LabelComponentClass] = typeWorker
	}
	return labels
}

func (t *templater) podAnnotations() map[string]string {
	annotations := withoutRollout(t.settings()) // a change of how pods are replaced restarts none
	if config := t.spec.EPPConfig; config != nil && config.Config != nil && t.componentType == typeEPP {
		annotations[AnnotationPickerConfig] = shortHash(string(config.Config.Raw))
	}
	t.transferAnnotations(annotations)
	t.meshAnnotation(annotations)
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}

// annotationIstioInject tells Istio whether to add its proxy to a pod.
const annotationIstioInject = "sidecar.istio.io/inject"

// meshAnnotation keeps Istio's proxy away from endpoint pickers: they serve TLS themselves, and a proxy that encrypts once more makes
// every request of the gateway fail. What the component itself says holds; what the deployment says of all components does not.
func (t *templater) meshAnnotation(annotations map[string]string) {
	if t.componentType != typeEPP {
		return
	}
	if t.spec.PodTemplate != nil {
		if _, said := t.spec.PodTemplate.Annotations[annotationIstioInject]; said {
			return
		}
	}
	annotations[annotationIstioInject] = "false"
}

// discoversThroughKubernetes reports whether the pods find each other by the API server, not etcd.
func (t *templater) discoversThroughKubernetes() bool {
	backend := t.settings()[annotationDiscoveryBackend]
	return backend == "" || backend == discoveryKubernetes
}
