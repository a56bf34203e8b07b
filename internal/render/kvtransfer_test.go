// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// transferGraph is a graph of a frontend and two workers, one packed into a rack, with a transfer policy.
func transferGraph(t *testing.T, policy string) *nvidiav1alpha1.DynamoGraphDeployment {
	t.Helper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	text := `
metadata: {name: g, namespace: ns}
spec:
  topologyConstraint: {topologyProfile: ` + hallOne(t).Name + `}
  services:
    Front: {componentType: frontend}
    Free: {componentType: worker, envs: [{name: DYN_KV_TRANSFER_DOMAIN, value: mine}]}
    Packed: {componentType: worker, subComponentType: decode, topologyConstraint: {packDomain: rack}}
`
	if policy != "" {
		text += "  experimental: {kvTransferPolicy: " + policy + "}\n"
	}
	if err := yaml.UnmarshalStrict([]byte(text), dgd); err != nil {
		t.Fatal(err)
	}
	return dgd
}

// transferOf is what a pod has of the policy: annotations, variables, and the label behind each file.
func transferOf(pod *corev1.Pod) (map[string]string, map[string]string, map[string]string) {
	annotations, env, files := map[string]string{}, map[string]string{}, map[string]string{}
	for _, key := range []string{AnnotationTopologyLabelKey, AnnotationTopologyName} {
		if value, ok := pod.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	for _, e := range pod.Spec.Containers[0].Env {
		switch e.Name {
		case envTopologyEnabled, envTopologyPath, envTransferDomain, envTransferEnforced, envTransferPreferred:
			env[e.Name] = e.Value
		}
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			if v.Name == m.Name && v.DownwardAPI != nil {
				for _, f := range v.DownwardAPI.Items {
					files[m.MountPath+"/"+f.Path] = f.FieldRef.FieldPath
				}
			}
		}
	}
	return annotations, env, files
}

func TestTransferPolicy(t *testing.T) {
	const byKey, byTopology = "{labelKey: example.com/leaf, domain: leaf, enforcement: preferred, preferredWeight: 0.25}", "{clusterTopologyName: t, domain: zone}"
	groups := func(policy string) map[string]*corev1.Pod {
		g, err := Resolve(hub.Of(transferGraph(t, policy)), Inputs{Topology: hallOne(t), Provider: specs.Gates.Name})
		if err != nil {
			t.Fatal(err)
		}
		pods := map[string]*corev1.Pod{}
		for _, sg := range g.ScalingGroups() {
			pods[sg.Spec.Component] = BuildPod(sg, 0, 0)
		}
		return pods
	}
	rackFiles := map[string]string{}
	for _, level := range hallOne(t).Spec.Levels {
		rackFiles["/etc/dynamo/topology/"+level.Domain] = fmt.Sprintf("metadata.labels['nvidia.com/dynamo-topology.%s']", level.Domain)
	}
	with := func(m map[string]string, more ...string) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			out[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	preferred := map[string]string{envTopologyEnabled: "true", envTopologyPath: "/etc/dynamo/topology", envTransferDomain: "leaf", envTransferEnforced: "preferred", envTransferPreferred: "0.25"}
	required := map[string]string{envTopologyEnabled: "true", envTopologyPath: "/etc/dynamo/topology", envTransferDomain: "zone", envTransferEnforced: "required"}
	none := map[string]string{}
	for name, c := range map[string]struct {
		policy, component       string
		annotations, env, files map[string]string
	}{
		"no policy":                     {"", "Free", none, map[string]string{envTransferDomain: "mine"}, none},
		"a frontend":                    {byKey, "Front", none, none, none},
		"by key, what the user set":     {byKey, "Free", map[string]string{AnnotationTopologyLabelKey: "example.com/leaf"}, with(preferred, envTransferDomain, "mine"), map[string]string{"/etc/dynamo/topology/leaf": "metadata.labels['example.com/leaf']"}},
		"by key, beside the levels":     {byKey, "Packed", map[string]string{AnnotationTopologyLabelKey: "example.com/leaf"}, preferred, with(rackFiles, "/etc/dynamo/topology/leaf", "metadata.labels['example.com/leaf']")},
		"by topology, among the levels": {byTopology, "Packed", map[string]string{AnnotationTopologyName: "t"}, required, rackFiles},
	} {
		t.Run(name, func(t *testing.T) {
			annotations, env, files := transferOf(groups(c.policy)[c.component])
			if diff := cmp.Diff([]map[string]string{c.annotations, c.env, c.files}, []map[string]string{annotations, env, files}); diff != "" {
				t.Errorf("annotations, variables, files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTransferPolicyIsInput: a policy concerns the workers' pods and no others.
func TestTransferPolicyIsInput(t *testing.T) {
	hashes := func(policy string) map[string]string {
		g, err := Resolve(hub.Of(transferGraph(t, policy)), Inputs{Topology: hallOne(t), Provider: specs.Gates.Name})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, s := range g.Components {
			out[s.Name] = s.Input.Hash
		}
		return out
	}
	without, with := hashes(""), hashes("{labelKey: zone, domain: zone}")
	if without["Front"] != with["Front"] || without["Free"] == with["Free"] || without["Packed"] == with["Packed"] {
		t.Errorf("without %v, with %v", without, with)
	}
}
