// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// In a graph with a KV transfer policy, workers get the policy in environment variables, and their own domain in a file. The downward API
// creates the file from a pod label. Trellis sets the label together with the pins, or copies it from the node when the pod is bound.
//
//	clusterTopologyName: gb200, domain: rack    nvidia.com/dynamo-topology.rack: rack-1    /etc/dynamo/topology/rack
//	labelKey: example.com/rack, domain: rack    example.com/rack: rack-1                   /etc/dynamo/topology/rack
const (
	// AnnotationTopologyLabelKey on a pod names the node label that is copied to the pod.
	AnnotationTopologyLabelKey = "nvidia.com/topology-label-key"
	// AnnotationTopologyName on a pod names the ClusterTopology whose levels are copied to the pod as labels.
	AnnotationTopologyName = "nvidia.com/topology-cluster-topology-name"

	envTopologyEnabled   = "DYN_TOPOLOGY_ENABLED"
	envTransferDomain    = "DYN_KV_TRANSFER_DOMAIN"
	envTransferEnforced  = "DYN_KV_TRANSFER_ENFORCEMENT"
	envTransferPreferred = "DYN_KV_TRANSFER_PREFERRED_WEIGHT"
)

// transferPolicy returns the KV transfer policy of the component's pods; nil for components that are not workers.
func (t *templater) transferPolicy() *nvidiav1beta1.KVTransferPolicy {
	if e := t.dgd.Spec.Experimental; e != nil && isWorker(t.componentType) {
		return e.KVTransferPolicy
	}
	return nil
}

// transferAnnotations sets the annotation that selects the node labels to copy to the pod.
func (t *templater) transferAnnotations(annotations map[string]string) {
	p := t.transferPolicy()
	switch {
	case p == nil:
	case p.LabelKey != "":
		annotations[AnnotationTopologyLabelKey] = p.LabelKey
	default:
		annotations[AnnotationTopologyName] = p.ClusterTopologyName
	}
}

// transferEnv returns the variables of the KV transfer policy.
func (t *templater) transferEnv() []corev1.EnvVar {
	p := t.transferPolicy()
	if p == nil {
		return nil
	}
	enforcement := p.Enforcement
	if enforcement == "" {
		enforcement = nvidiav1beta1.KVTransferRequired
	}
	env := []corev1.EnvVar{
		{Name: envTopologyEnabled, Value: "true"},
		{Name: envTopologyPath, Value: topologyPath},
		{Name: envTransferDomain, Value: p.Domain},
		{Name: envTransferEnforced, Value: string(enforcement)},
	}
	if p.PreferredWeight != nil {
		env = append(env, corev1.EnvVar{Name: envTransferPreferred, Value: strconv.FormatFloat(*p.PreferredWeight, 'f', -1, 64)})
	}
	return env
}

// addTransferFile mounts the file with the worker's domain.
func (t *templater) addTransferFile(spec *corev1.PodSpec, c *corev1.Container) {
	p := t.transferPolicy()
	if p == nil {
		return
	}
	label := p.LabelKey
	if label == "" {
		label = topologyLabel(p.Domain)
	}
	file := corev1.DownwardAPIVolumeFile{
		Path: p.Domain, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + label + "']"},
	}
	volume := corev1.Volume{Name: topologyVolume, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{file}},
	}}
	addVolume(spec, c, volume, corev1.VolumeMount{Name: topologyVolume, MountPath: topologyPath, ReadOnly: true})
}

// NodeLabels returns the node labels that a bound pod requests as its own labels and does not have yet. topology is the ClusterTopology
// that the pod's annotation names; nil if there is none.
func NodeLabels(pod *corev1.Pod, node *corev1.Node, topology *grovev1alpha1.ClusterTopology) map[string]string {
	labels := map[string]string{}
	add := func(label, key string) {
		value, known := node.Labels[key]
		if _, has := pod.Labels[label]; known && !has {
			labels[label] = value
		}
	}
	if key := pod.Annotations[AnnotationTopologyLabelKey]; key != "" {
		add(key, key)
	}
	if topology != nil && pod.Annotations[AnnotationTopologyName] == topology.Name {
		for _, level := range topology.Spec.Levels {
			add(topologyLabel(level.Domain), level.Key)
		}
	}
	return labels
}
