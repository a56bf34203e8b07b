// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// The API groups, ports and files of an endpoint picker and its pool.
const (
	inferenceGroup   = "inference.networking.k8s.io"
	inferenceVersion = "v1"

	pickerConfigVolume = "epp-config"
	pickerConfigPath   = "/etc/epp"
	pickerConfigFile   = "epp-config-dynamo.yaml"
	pickerConfigSuffix = "-epp-config"
	pickerPoolSuffix   = "-pool"
	pickerCacheVolume  = "hf-cache"
	pickerHome         = "/home/nonroot"
	nativePickerHome   = "/home/dynamo"
	pickerCache        = "/.cache"
)

// AnnotationPickerConfig on an endpoint picker's pods is a hash of the picker's inline configuration. The picker reads its configuration
// only at startup, so a changed configuration must replace the pod.
const AnnotationPickerConfig = "trellis.dev/epp-config"

func poolName(graph string) string {
	return fit(graph, graph, maxObjectName-len(pickerPoolSuffix)) + pickerPoolSuffix
}

func pickerConfigName(graph string) string {
	return fit(graph, graph, maxObjectName-len(pickerConfigSuffix)) + pickerConfigSuffix
}

// pickerArgs returns the arguments with the pool, the ports and the configuration of an endpoint picker.
func pickerArgs(graph, namespace string) []string {
	return []string{
		"-pool-name", poolName(graph), "-pool-namespace", namespace, "-pool-group", inferenceGroup,
		"-v", "4", "--zap-encoder", "json",
		"-grpc-port", fmt.Sprint(grpcPort), "-grpc-health-port", fmt.Sprint(grpcHealthPort),
		"-config-file", pickerConfigPath + "/" + pickerConfigFile,
	}
}

// hasPicker reports whether a component of the deployment is an endpoint picker.
func hasPicker(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return slices.ContainsFunc(dgd.Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool {
		return c.Type == nvidiav1beta1.ComponentTypeEPP
	})
}

// launchPicker sets the arguments or environment variables with which an endpoint picker starts. The native picker of runtime 1.5.0 and
// later takes no arguments, and stores downloads below its home directory.
func (d *defaults) launchPicker(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec) {
	if !picksByItself(c) {
		d.args = pickerArgs(dgd.Name, dgd.Namespace)
		return
	}
	d.env = append(d.env, corev1.EnvVar{Name: "HOME", Value: nativePickerHome})
}

func picksByItself(c *nvidiav1beta1.ComponentSpec) bool {
	native, _ := NativePicker(c)
	return native && c.EPPConfig == nil
}

// addPickerFiles mounts an endpoint picker's configuration, and a volume for the model files that the picker downloads. A native picker has
// no configuration file.
func (t *templater) addPickerFiles(spec *corev1.PodSpec, c *corev1.Container) {
	if t.componentType != typeEPP {
		return
	}
	home := nativePickerHome
	if !picksByItself(t.spec) {
		t.addPickerConfig(spec, c)
		home = pickerHome
	}
	addVolume(spec, c, corev1.Volume{Name: pickerCacheVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.VolumeMount{Name: pickerCacheVolume, MountPath: home + pickerCache})
}

func (t *templater) addPickerConfig(spec *corev1.PodSpec, c *corev1.Container) {
	source := &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: pickerConfigName(t.dgd.Name)},
		Items:                []corev1.KeyToPath{{Key: pickerConfigFile, Path: pickerConfigFile}},
	}
	if config := t.spec.EPPConfig; config != nil && config.ConfigMapRef != nil {
		source.Name = config.ConfigMapRef.Name
		if config.ConfigMapRef.Key != "" {
			source.Items[0].Key = config.ConfigMapRef.Key
		}
		source.Optional = config.ConfigMapRef.Optional
	}
	addVolume(spec, c, corev1.Volume{Name: pickerConfigVolume, VolumeSource: corev1.VolumeSource{ConfigMap: source}},
		corev1.VolumeMount{Name: pickerConfigVolume, MountPath: pickerConfigPath, ReadOnly: true})
}

// endpointPicker returns the InferencePool of an endpoint picker. If the deployment contains the picker's configuration, it also returns a
// ConfigMap with the configuration.
func (g *Graph) endpointPicker(dgd *nvidiav1beta1.DynamoGraphDeployment, s *Component, spec *nvidiav1beta1.ComponentSpec) ([]Object,
	error) {
	if s.ComponentType != typeEPP {
		return nil, nil
	}
	pool := g.inferencePool(s, dynamoNamespace(dgd, spec))
	if spec.EPPConfig == nil || spec.EPPConfig.Config == nil {
		return []Object{pool}, nil
	}
	text, err := pickerConfig(spec.EPPConfig.Config)
	if err != nil {
		return nil, invalid(PathOf(dgd, s.Name).Child("eppConfig", "config"), "%s", err)
	}
	config := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: g.componentMeta(s, pickerConfigName(g.Name)),
		Data:       map[string]string{pickerConfigFile: text},
	}
	return []Object{config, pool}, nil
}

// pickerConfig adds apiVersion and kind, which users omit, to the configuration.
func pickerConfig(config *nvidiav1beta1.FreeObject) (string, error) {
	content := map[string]any{}
	if err := json.Unmarshal(config.Raw, &content); err != nil {
		return "", fmt.Errorf("not an object: %w", err)
	}
	content["apiVersion"], content["kind"] = "inference.networking.x-k8s.io/v1alpha1", "EndpointPickerConfig"
	raw, err := yaml.Marshal(content)
	return string(raw), err
}

// inferencePool returns the InferencePool through which the gateway finds the graph. The pool selects the workers, targets their frontend
// sidecars, and refers to the endpoint picker.
func (g *Graph) inferencePool(s *Component, dynamoNamespace string) Object {
	pool := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"targetPorts": []any{map[string]any{"number": int64(httpPort)}},
			"selector":    map[string]any{"matchLabels": g.workersOf(dynamoNamespace)},
			"endpointPickerRef": map[string]any{
				"kind": "Service", "name": s.ServiceName, "port": map[string]any{"number": int64(grpcPort)},
			},
		},
	}}
	pool.SetAPIVersion(inferenceGroup + "/" + inferenceVersion)
	pool.SetKind("InferencePool")
	meta := g.componentMeta(s, poolName(g.Name))
	pool.SetName(meta.Name)
	pool.SetNamespace(meta.Namespace)
	pool.SetLabels(meta.Labels)
	pool.SetAnnotations(meta.Annotations)
	return pool
}

// workersOf returns the labels by which a pool selects the workers of a Dynamo namespace. If all workers have the type worker, which is
// usual, it uses the type label. This label also selects pods that were created before the endpoint picker, or by an older operator that
// set no class label. In v1alpha1, a worker may have the type prefill or decode. In this case, workersOf uses the class label.
func (g *Graph) workersOf(dynamoNamespace string) map[string]any {
	labels := map[string]any{LabelNamespace: LabelValue(dynamoNamespace)}
	if slices.ContainsFunc(g.Components, func(s Component) bool { return isWorker(s.ComponentType) && s.ComponentType != typeWorker }) {
		labels[LabelComponentClass] = typeWorker
	} else {
		labels[LabelComponentType] = typeWorker
	}
	return labels
}
