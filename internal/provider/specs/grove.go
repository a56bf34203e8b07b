// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

// Annotations of a deployment that other operators of the kind read, too.
const (
	// AnnotationGroveUpdate is how Grove updates its PodCliqueSet.
	AnnotationGroveUpdate = "nvidia.com/grove-update-strategy"
	// AnnotationEnableGrove with the value "false" rules Grove out.
	AnnotationEnableGrove = "nvidia.com/enable-grove"
	// AnnotationWorkloadProvider is "grove", which names Grove, or "component", which rules it out.
	AnnotationWorkloadProvider = "nvidia.com/workload-provider"
)

// Grove makes and places the pods itself.
var Grove = Spec{
	Name: "Grove", Queued: true, ActsOn: []string{AnnotationGroveUpdate}, Overrides: true, FixedGangs: true, WorkloadProvider: "grove",
	RuledOutBy: []Annotation{{Key: AnnotationEnableGrove, Value: "false"}, {Key: AnnotationWorkloadProvider, Value: "component"}},
}
