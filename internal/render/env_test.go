// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestMergeEnv(t *testing.T) {
	tests := map[string]struct {
		ours  string
		users []string
		want  string
	}{
		"order stays":               {"O=1", []string{"B=1 A=2"}, "O=1 B=1 A=2"},
		"ours give way":             {"A=1 B=2", []string{"C=3 A=4"}, "B=2 C=3 A=4"},
		"the later list wins":       {"", []string{"A=1 B=2", "C=3", "A=4"}, "A=4 B=2 C=3"},
		"a reference comes after":   {"", []string{"A=$(B) C=3", "B=2"}, "B=2 A=$(B) C=3"},
		"through others":            {"", []string{"A=$(B)", "B=$(C)", "C=3"}, "C=3 B=$(C) A=$(B)"},
		"to ours":                   {"O=1", []string{"A=$(O)"}, "O=1 A=$(O)"},
		"ours redefined by a later": {"O=1", []string{"C=3 O=$(C)"}, "C=3 O=$(C)"},
		"in a circle":               {"", []string{"A=$(B) B=$(A)"}, "B=$(A) A=$(B)"},
		"to itself":                 {"", []string{"A=$(A):x B=1"}, "A=$(A):x B=1"},
		"escaped":                   {"", []string{"A=$$(B) B=1"}, "A=$$(B) B=1"},
		"no reference":              {"", []string{"A=$B B=1 C=$( D=$"}, "A=$B B=1 C=$( D=$"},
		"the last of two":           {"", []string{"A=1 A=2"}, "A=2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var users [][]corev1.EnvVar
			for _, list := range tc.users {
				users = append(users, envs(list))
			}
			if diff := cmp.Diff(envs(tc.want), mergeEnv(envs(tc.ours), users...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func envs(list string) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, pair := range strings.Fields(list) {
		name, value, _ := strings.Cut(pair, "=")
		out = append(out, corev1.EnvVar{Name: name, Value: value})
	}
	return out
}

func TestDiscoveryAndMetrics(t *testing.T) {
	tests := map[string]struct {
		onDeployment, onComponent map[string]string
		wantBackend, wantMode     string
		wantLabel, wantMetrics    string
	}{
		"as it comes":        {wantBackend: "kubernetes", wantLabel: "kubernetes", wantMetrics: "true"},
		"etcd":               {onDeployment: map[string]string{annotationDiscoveryBackend: "etcd"}, wantMetrics: "true"},
		"the service's wins": {onDeployment: map[string]string{annotationDiscoveryBackend: "etcd"}, onComponent: map[string]string{annotationDiscoveryBackend: "kubernetes"}, wantBackend: "kubernetes", wantLabel: "kubernetes", wantMetrics: "true"},
		"by container":       {onDeployment: map[string]string{annotationDiscoveryMode: "container"}, wantBackend: "kubernetes", wantMode: "container", wantLabel: "kubernetes", wantMetrics: "true"},
		"no metrics":         {onDeployment: map[string]string{annotationEnableMetrics: "false"}, wantBackend: "kubernetes", wantLabel: "kubernetes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dgd := graphOf("llm", map[string]int32{"w": 1})
			dgd.Annotations, dgd.Spec.Services["w"].Annotations = tc.onDeployment, tc.onComponent
			pod := BuildPod(group(t, dgd), 0, 0)
			got := []string{
				valueOf(pod, "DYN_DISCOVERY_BACKEND"), valueOf(pod, "DYN_KUBE_DISCOVERY_MODE"),
				pod.Labels[LabelDiscoveryBackend], pod.Labels[LabelMetricsEnabled],
			}
			if diff := cmp.Diff([]string{tc.wantBackend, tc.wantMode, tc.wantLabel, tc.wantMetrics}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGlobalDynamoNamespace(t *testing.T) {
	dgd := graphOf("llm", map[string]int32{"w": 1})
	dgd.Spec.Services["w"].GlobalDynamoNamespace = true
	pod := BuildPod(group(t, dgd), 0, 0)
	if got := []string{valueOf(pod, "DYN_NAMESPACE"), pod.Labels[LabelNamespace]}; got[0] != "dynamo" || got[1] != "dynamo" {
		t.Errorf("namespace %v", got)
	}
}

func valueOf(pod *corev1.Pod, name string) string {
	if i := indexEnv(pod.Spec.Containers[0].Env, name); i >= 0 {
		return pod.Spec.Containers[0].Env[i].Value
	}
	return ""
}
