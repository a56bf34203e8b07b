// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// many repeats a text with a number in it.
func many(n int, text string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(text, i+1)
	}
	return strings.Join(parts, ", ")
}

// listCases are lists of so many entries, as a pod has them: the form with a hole for n entries, how many are admitted, and the error of one more.
var listCases = map[string]struct {
	form func(n int) string
	most int
	path string
	says string
}{
	"tolerations": {
		form: func(n int) string { return "tolerations: [" + many(n, "{key: k%d, operator: Exists}") + "]" },
		most: 256, path: "tolerations", says: "Too many: 257: must have at most 256 tolerations: they are compared with every node; " +
			"tolerate a key with operator Exists instead of each value",
	},
	"node selector": {
		form: func(n int) string { return "nodeSelector: {" + many(n, "k%d: v") + "}" },
		most: 64, path: "nodeSelector", says: "Too many: 65: must have at most 64 labels: they are compared with every node; " +
			"label the nodes of a pool with one label, and select that",
	},
	"values of a node affinity": {
		form: func(n int) string {
			return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: In, values: [" +
				many(n-2, "v%d") + "]}]}]}}}"
		},
		most: 1024, path: "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
		says: "Too many: 1025: must have at most 1024 terms, expressions and values: they are compared with every node; " +
			"put one label on all the nodes or pods that you mean, and select that",
	},
	"terms of a node affinity": {
		form: func(n int) string {
			return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" +
				many(n/3, "{matchFields: [{key: metadata.name, operator: In, values: [n%d]}]}") + strings.Repeat(", {}", n%3) + "]}}}"
		},
		most: 1024, path: "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
		says: "Too many: 1025: must have at most 1024 terms, expressions and values: they are compared with every node; " +
			"put one label on all the nodes or pods that you mean, and select that",
	},
	"terms of a pod anti-affinity": {
		form: func(n int) string {
			return "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [" +
				many(n/2, "{topologyKey: h, labelSelector: {matchLabels: {k%d: v}}}") + strings.Repeat(", {topologyKey: h}", n%2) + "]}}"
		},
		most: 1024, path: "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
		says: "Too many: 1025: must have at most 1024 terms, expressions and values: they are compared with every node; " +
			"put one label on all the nodes or pods that you mean, and select that",
	},
	"terms of a pod affinity": {
		form: func(n int) string {
			return "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: h, namespaces: [" + many(n-1, "n%d") + "]}]}}"
		},
		most: 1024, path: "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
		says: "Too many: 1025: must have at most 1024 terms, expressions and values: they are compared with every node; " +
			"put one label on all the nodes or pods that you mean, and select that",
	},
	"topology spread": {
		form: func(n int) string {
			return "topologySpreadConstraints: [" + many(n, "{maxSkew: 1, topologyKey: k%d, whenUnsatisfiable: DoNotSchedule}") + "]"
		},
		most: 64, path: "topologySpreadConstraints", says: "Too many: 65: must have at most 64 constraints: they are compared with every node; remove some",
	},
	"resource claims": {
		form: func(n int) string { return "resourceClaims: [" + many(n, "{name: c%d, resourceClaimName: c}") + "]" },
		most: 64, path: "resourceClaims", says: "Too many: 65: must have at most 64 claims: they are compared with every node; ask for several devices in one claim",
	},
	"host ports of a sidecar": {
		form: func(n int) string {
			return "containers: [{name: side, image: i, ports: [" + many(n, "{containerPort: 1, hostPort: %d}") + "]}]"
		},
		most: 256, path: "containers[side].ports", says: "Too many: 257: must have at most 256 host ports in all containers: " +
			"they are compared with every node; remove host ports: pods reach each other without them",
	},
	"ports in the network of the host": {
		form: func(n int) string {
			return "hostNetwork: true, containers: [{name: side, image: i, ports: [" + many(n, "{containerPort: %d}") + "]}]"
		},
		most: 256, path: "containers[side].ports", says: "Too many: 257: must have at most 256 host ports in all containers: " +
			"they are compared with every node; remove host ports: pods reach each other without them",
	},
}

// Each list that the planner compares has a bound in both versions: what is at it is admitted, and one more is refused with its path and the fix.
func TestListsAreBounded(t *testing.T) {
	const main = `{name: main, image: i}, `
	for name, tc := range listCases {
		for version, form := range map[string]func(pod string) string{
			"v1alpha1": func(pod string) string { return "extraPodSpec: {mainContainer: {image: i}, " + pod + "}" },
			"v1beta1": func(pod string) string {
				if !strings.Contains(pod, "containers: [") {
					pod += ", containers: []"
				}
				return "podTemplate: {spec: {" + strings.Replace(pod, "containers: [", "containers: ["+main, 1) + "}}"
			},
		} {
			t.Run(name+" in "+version, func(t *testing.T) {
				path := workerOf + "extraPodSpec."
				if version == "v1beta1" {
					path = worker0 + "podTemplate.spec."
				}
				if got := saysOfCreate(t, version, "backendFramework: vllm", form(tc.form(tc.most))); got != "" {
					t.Errorf("%d are refused: %s", tc.most, got)
				}
				if diff := cmp.Diff(path+tc.path+": "+tc.says, saysOfCreate(t, version, "backendFramework: vllm", form(tc.form(tc.most+1)))); diff != "" {
					t.Errorf("%d (-want +got):\n%s", tc.most+1, diff)
				}
			})
		}
	}
}

// Resources are written elsewhere in v1alpha1.
func TestResourceNamesAreBounded(t *testing.T) {
	const says = "Too many: 65: must have at most 64 names of resources in all containers: they are compared with every node; remove some"
	for version, tc := range map[string]struct {
		form func(n int) string
		want string
	}{
		"v1alpha1": {func(n int) string {
			return mainAlpha + ", resources: {requests: {custom: {" + many(n, "example.com/r%d: '1'") + "}}}"
		}, workerOf + "resources: " + says},
		"v1beta1": {func(n int) string {
			return "podTemplate: {spec: {containers: [{name: main, image: i, resources: {requests: {" + many(n, "example.com/r%d: 1") + "}}}]}}"
		}, worker0 + "podTemplate.spec.containers[main].resources: " + says},
	} {
		if got := saysOfCreate(t, version, "backendFramework: vllm", tc.form(64)); got != "" {
			t.Errorf("%s: 64 are refused: %s", version, got)
		}
		if diff := cmp.Diff(tc.want, saysOfCreate(t, version, "backendFramework: vllm", tc.form(65))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
}
