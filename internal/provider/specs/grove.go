// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

// Annotations of a deployment that other DynamoGraphDeployment operators read as well.
const (
	// AnnotationGroveUpdate is the update strategy of Grove's PodCliqueSet.
	AnnotationGroveUpdate = "nvidia.com/grove-update-strategy"
	// AnnotationEnableGrove with the value "false" excludes Grove.
	AnnotationEnableGrove = "nvidia.com/enable-grove"
	// AnnotationWorkloadProvider has the value "grove", which chooses Grove, or "component", which excludes it.
	AnnotationWorkloadProvider = "nvidia.com/workload-provider"
)

// Grove makes and places the pods itself.
var Grove = Spec{
	Name: "Grove", Queued: true, ActsOn: []string{AnnotationGroveUpdate}, Overrides: true, FixedGangs: true, WorkloadProvider: "grove",
	RuledOutBy: []Annotation{{Key: AnnotationEnableGrove, Value: "false"}, {Key: AnnotationWorkloadProvider, Value: "component"}},
}
