// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Names of the providers: what gets gangs onto nodes. ProviderAuto chooses by the deployment.
const (
	ProviderAuto     = "auto"
	ProviderGates    = "Gates"
	ProviderPodGroup = "PodGroup"
	ProviderKAI      = "KAI"
	ProviderGrove    = "Grove"
)

// ProviderNames are the accepted values of the operator's flag and of the annotation.
var ProviderNames = []string{ProviderAuto, ProviderGates, ProviderPodGroup, ProviderKAI, ProviderGrove}

const (
	// AnnotationProvider on a deployment names its provider.
	AnnotationProvider = "trellis.dev/provider"
	// AnnotationFormerProvider is the former name of AnnotationProvider, which is read for one minor version.
	AnnotationFormerProvider = "trellis.dev/engine"
	// AnnotationWorkloadProvider is that of Dynamo's operator. Its value [WorkloadProviderGrove] names Grove, [WorkloadProviderComponent] rules it
	// out. The others win over it.
	AnnotationWorkloadProvider = "nvidia.com/workload-provider"
	// AnnotationPodProvider on a pod names the provider that the pod was made for, unless that is Gates.
	AnnotationPodProvider = "trellis.dev/engine"
	// AnnotationEnableGrove with the value "false" rules Grove out.
	AnnotationEnableGrove = "nvidia.com/enable-grove"
	// SchedulerKAI is the schedulerName of pods that KAI Scheduler places.
	SchedulerKAI = "kai-scheduler"
)

// Values of AnnotationWorkloadProvider.
const (
	WorkloadProviderGrove     = "grove"
	WorkloadProviderComponent = "component"
)

// ProviderChoice is a provider and why it is the one.
type ProviderChoice struct {
	Name string
	// Why is a part of a sentence: "by default", "by the annotation trellis.dev/provider".
	Why string
}

// ChooseProvider says which provider a new deployment gets. preset is the operator's own setting, ProviderAuto or "" when it has none. What a
// deployment has been given once is frozen in its ScalingGroups and not asked here.
func ChooseProvider(dgd *nvidiav1beta1.DynamoGraphDeployment, preset string) ProviderChoice {
	if name, annotation := NamedProvider(dgd.Annotations); name != "" && name != ProviderAuto {
		return ProviderChoice{name, "by the annotation " + annotation}
	}
	ruledOut := ""
	if annotation := rulesOutGrove(dgd.Annotations); preset == ProviderGrove && annotation != "" {
		preset, ruledOut = ProviderAuto, fmt.Sprintf(", Grove being ruled out by the annotation %s", annotation)
	}
	if preset != "" && preset != ProviderAuto {
		return ProviderChoice{preset, "by the operator's flag --provider"}
	}
	if service := onKAI(dgd); service != "" {
		return ProviderChoice{ProviderKAI, fmt.Sprintf("by schedulerName %s of service %s%s", SchedulerKAI, service, ruledOut)}
	}
	return ProviderChoice{ProviderGates, "by default" + ruledOut}
}

// NamedProvider is the provider that a deployment's annotations name, and the annotation that does; "" for none.
func NamedProvider(annotations map[string]string) (name, annotation string) {
	for _, annotation := range []string{AnnotationProvider, AnnotationFormerProvider} {
		if name := annotations[annotation]; name != "" {
			return name, annotation
		}
	}
	if annotations[AnnotationWorkloadProvider] == WorkloadProviderGrove {
		return ProviderGrove, AnnotationWorkloadProvider
	}
	return "", ""
}

// rulesOutGrove is the annotation that does; "" when none does.
func rulesOutGrove(annotations map[string]string) string {
	switch {
	case annotations[AnnotationEnableGrove] == "false":
		return AnnotationEnableGrove
	case annotations[AnnotationWorkloadProvider] == WorkloadProviderComponent:
		return AnnotationWorkloadProvider
	}
	return ""
}

// onKAI names the first service whose pods ask for KAI Scheduler.
func onKAI(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	for _, c := range Components(dgd) {
		if c.PodTemplate != nil && c.PodTemplate.Spec.SchedulerName == SchedulerKAI {
			return c.Name
		}
	}
	return ""
}

// PlannedHere says that Trellis makes a provider's pods, gates them, and plans where they go. Under Grove it does not.
func PlannedHere(provider string) bool {
	return slices.Contains([]string{ProviderGates, ProviderPodGroup, ProviderKAI}, provider)
}
