// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Annotations that change a component's environment variables and labels. On the deployment, an annotation applies to all components; on a
// component, to this component only.
const (
	annotationEnableMetrics    = "nvidia.com/enable-metrics"
	annotationDiscoveryBackend = "nvidia.com/dynamo-discovery-backend"
	annotationDiscoveryMode    = "nvidia.com/dynamo-kube-discovery-mode"
	annotationVLLMExecutor     = "nvidia.com/vllm-distributed-executor-backend"
	annotationOriginVersion    = "nvidia.com/dynamo-operator-origin-version"

	// envComponent is set in every container that runs a Dynamo program.
	envComponent = "DYN_COMPONENT"

	discoveryKubernetes    = "kubernetes"
	discoveryModeContainer = "container"
)

// infraEnv returns the environment variables from which every Dynamo program reads its identity and the addresses of the platform's
// services.
func (t *templater) infraEnv(container, componentType string) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "DYN_NAMESPACE", Value: t.dynamoNamespace()},
		{Name: envComponent, Value: componentType},
		{Name: "DYN_PARENT_DGD_K8S_NAME", Value: t.dgd.Name},
		{Name: "DYN_PARENT_DGD_K8S_NAMESPACE", Value: t.dgd.Namespace},
		fieldEnv("POD_NAME", "metadata.name"),
		fieldEnv("POD_NAMESPACE", "metadata.namespace"),
		fieldEnv("POD_UID", "metadata.uid"),
	}
	if t.discoversThroughKubernetes() {
		env = append(env, corev1.EnvVar{Name: "DYN_DISCOVERY_BACKEND", Value: discoveryKubernetes})
	}
	env = append(env, t.platform.env()...)
	if t.settings()[annotationDiscoveryMode] == discoveryModeContainer {
		env = append(env,
			corev1.EnvVar{Name: "CONTAINER_NAME", Value: container},
			corev1.EnvVar{Name: "DYN_KUBE_DISCOVERY_MODE", Value: discoveryModeContainer})
	}
	return env
}

// fieldEnv returns a variable with the value of a pod field. It sets the API server's defaults explicitly, so that a template read back
// equals the written template.
func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

// mergeEnv merges the default variables with the user's lists of variables. Later lists override earlier lists. A user's variable keeps its
// position in the first user list that contains it. A default variable is dropped if any user list contains its name. A variable that
// contains a reference $(OTHER) comes after the variable OTHER.
func mergeEnv(ours []corev1.EnvVar, users ...[]corev1.EnvVar) []corev1.EnvVar {
	var merged []corev1.EnvVar
	for _, env := range slices.Concat(users...) {
		if i := indexEnv(merged, env.Name); i >= 0 {
			merged[i] = env
		} else {
			merged = append(merged, env)
		}
	}
	var out []corev1.EnvVar
	for _, env := range ours {
		if indexEnv(merged, env.Name) < 0 {
			out = append(out, env)
		}
	}
	return referencesFirst(append(out, merged...))
}

func indexEnv(list []corev1.EnvVar, name string) int {
	return slices.IndexFunc(list, func(e corev1.EnvVar) bool { return e.Name == name })
}

// referencesFirst reorders variables as little as possible so that every $(NAME) follows the definition of NAME, as the kubelet requires.
func referencesFirst(list []corev1.EnvVar) []corev1.EnvVar {
	out := make([]corev1.EnvVar, 0, len(list))
	visited := make([]bool, len(list))
	var emit func(i int)
	emit = func(i int) {
		if i < 0 || visited[i] {
			return
		}
		visited[i] = true
		for _, name := range references(list[i].Value) {
			emit(indexEnv(list, name))
		}
		out = append(out, list[i])
	}
	for i := range list {
		emit(i)
	}
	return out
}

// references lists the names in "$(NAME)" references; "$$(NAME)" is an escape, not a reference.
func references(value string) []string {
	var names []string
	for {
		start := strings.IndexByte(value, '$')
		if start < 0 || start+1 >= len(value) {
			return names
		}
		next := value[start+1]
		value = value[start+2:]
		if next != '(' {
			continue
		}
		end := strings.IndexByte(value, ')')
		if end < 0 {
			return names
		}
		names = append(names, value[:end])
		value = value[end+1:]
	}
}
