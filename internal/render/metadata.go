// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// inheritedAnnotations are a deployment's annotations that apply to all components.
var inheritedAnnotations = []string{
	annotationEnableMetrics, annotationDiscoveryBackend, annotationDiscoveryMode, annotationVLLMExecutor, annotationOriginVersion,
	AnnotationDistinctHosts,
	AnnotationComputeDomain, AnnotationComputeDomainPer,
}

// dynamoNamespace returns the component's Dynamo namespace: <Kubernetes namespace>-<deployment>, or "dynamo" if global.
func (t *templater) dynamoNamespace() string { return dynamoNamespace(t.dgd, t.spec) }

func dynamoNamespace(dgd *nvidiav1beta1.DynamoGraphDeployment, spec *nvidiav1beta1.ComponentSpec) string {
	if spec.GlobalDynamoNamespace {
		return "dynamo"
	}
	return dgd.Namespace + "-" + dgd.Name
}

// labels returns the labels for all objects of the component. The user's labels override Trellis' labels, except the labels on which
// selectors and Dynamo rely.
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

// inherited returns a deployment's annotations that apply to all components.
func inherited(dgd *nvidiav1beta1.DynamoGraphDeployment) map[string]string {
	annotations := map[string]string{}
	for _, key := range inheritedAnnotations {
		if value, ok := dgd.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	return annotations
}

// annotations returns the annotations for all objects of the component except its pods.
func (t *templater) annotations() map[string]string {
	annotations := inherited(t.dgd)
	maps.Copy(annotations, t.dgd.Spec.Annotations)
	maps.Copy(annotations, t.alpha.Annotations)
	return annotations
}

// settings returns the annotations that apply to the component's pods: the deployment's annotations, overridden by the annotations of the
// podTemplate.
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
	delete(labels, LabelWorkerHash) // a label of the user is not a generation
	setIf(labels, LabelWorkerHash, t.generation)
	if isWorker(t.componentType) && hasPicker(t.dgd) {
		labels[LabelComponentClass] = typeWorker
	}
	return labels
}

func (t *templater) podAnnotations() map[string]string {
	annotations := withoutRollout(t.settings()) // a change of the update strategy must not restart pods
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

// annotationIstioInject sets whether Istio adds its proxy to a pod.
const annotationIstioInject = "sidecar.istio.io/inject"

// meshAnnotation keeps Istio's proxy out of endpoint pickers. They serve TLS themselves, so a second encryption by a proxy makes every
// request from the gateway fail. The component's own annotation overrides this default; the deployment's annotation does not.
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

// discoversThroughKubernetes reports whether the pods discover each other through the API server, not etcd.
func (t *templater) discoversThroughKubernetes() bool {
	backend := t.settings()[annotationDiscoveryBackend]
	return backend == "" || backend == discoveryKubernetes
}
