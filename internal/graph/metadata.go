// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"maps"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// inheritedAnnotations on a deployment hold for all its services.
var inheritedAnnotations = []string{
	annotationEnableMetrics, annotationDiscoveryBackend, annotationDiscoveryMode, annotationVLLMExecutor, annotationOriginVersion,
}

// dynamoNamespace keeps graphs apart inside Dynamo: <Kubernetes namespace>-<deployment>.
func (t *templater) dynamoNamespace() string {
	if t.spec.GlobalDynamoNamespace {
		return "dynamo"
	}
	return t.dgd.Namespace + "-" + t.dgd.Name
}

// labels of everything made for the service. The user's win except where selectors and Dynamo itself rely on them.
func (t *templater) labels() map[string]string {
	labels := map[string]string{
		LabelSelector:  LabelValue(dnsLabel(t.dgd.Name) + "-" + dnsLabel(t.name)),
		LabelComponent: LabelValue(t.name),
	}
	setIf(labels, LabelSubComponentType, t.spec.SubComponentType)
	if t.annotations()[annotationEnableMetrics] != "false" {
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
	maps.Copy(labels, t.spec.Labels)
	t.systemLabels(labels)
	return labels
}

func (t *templater) systemLabels(labels map[string]string) {
	labels[LabelGraph] = LabelValue(t.dgd.Name)
	labels[LabelNamespace] = LabelValue(t.dynamoNamespace())
	setIf(labels, LabelComponentType, t.spec.ComponentType)
}

func setIf(labels map[string]string, key, text string) {
	if text != "" {
		labels[key] = LabelValue(text)
	}
}

// inherited are the annotations of a deployment that hold for all its services.
func inherited(dgd *nvidiav1alpha1.DynamoGraphDeployment) map[string]string {
	annotations := map[string]string{}
	for _, key := range inheritedAnnotations {
		if value, ok := dgd.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	return annotations
}

// annotations of everything made for the service.
func (t *templater) annotations() map[string]string {
	annotations := inherited(t.dgd)
	maps.Copy(annotations, t.dgd.Spec.Annotations)
	maps.Copy(annotations, t.spec.Annotations)
	return annotations
}

func (t *templater) podLabels() map[string]string {
	labels := t.labels()
	if extra := t.spec.ExtraPodMetadata; extra != nil {
		maps.Copy(labels, extra.Labels)
	}
	t.systemLabels(labels)
	return labels
}

func (t *templater) podAnnotations() map[string]string {
	annotations := t.annotations()
	for _, key := range rollout.Annotations { // how pods are replaced is not about the pods: a change of it restarts none
		delete(annotations, key)
	}
	if extra := t.spec.ExtraPodMetadata; extra != nil {
		maps.Copy(annotations, extra.Annotations)
	}
	if config := t.spec.EPPConfig; config != nil && config.Config != nil && t.spec.ComponentType == nvidiav1alpha1.ComponentTypeEPP {
		annotations[AnnotationPickerConfig] = shortHash(string(config.Config.Raw))
	}
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}

// discoversThroughKubernetes says that the pods find each other by the API server, not etcd.
func (t *templater) discoversThroughKubernetes() bool {
	backend := t.annotations()[annotationDiscoveryBackend]
	return backend == "" || backend == discoveryKubernetes
}
