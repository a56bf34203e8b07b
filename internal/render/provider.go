// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

const (
	// AnnotationProvider on a deployment names its provider.
	AnnotationProvider = "trellis.dev/provider"
	// AnnotationFormerProvider is the former name of AnnotationProvider, accepted for one minor version.
	AnnotationFormerProvider = "trellis.dev/engine"
	// AnnotationPodProvider on a pod names the provider for which the pod was made. Pods for Gates do not have this annotation.
	AnnotationPodProvider = "trellis.dev/engine"
)

// ProviderChoice is the chosen provider and the reason for the choice.
type ProviderChoice struct {
	Name string
	// Why is part of a sentence: "by default", "by the annotation trellis.dev/provider".
	Why string
}

// ChooseProvider chooses the provider of a new deployment. preset is the operator's setting: a provider, [specs.Auto] or "". The provider
// of an existing deployment is frozen in its ScalingGroups, which ChooseProvider does not read.
func ChooseProvider(dgd *nvidiav1beta1.DynamoGraphDeployment, preset string) ProviderChoice {
	if name, annotation := NamedProvider(dgd.Annotations); name != "" && name != specs.Auto {
		return ProviderChoice{name, "by the annotation " + annotation}
	}
	ruledOut := ""
	if annotation := rulesOut(dgd.Annotations, specs.Named(preset)); annotation != "" {
		preset, ruledOut = specs.Auto, fmt.Sprintf(", %s being ruled out by the annotation %s", preset, annotation)
	}
	if preset != "" && preset != specs.Auto {
		return ProviderChoice{preset, "by the operator's flag --provider"}
	}
	for _, spec := range specs.All {
		if component := scheduledBy(dgd, spec.SchedulerName); component != "" {
			return ProviderChoice{spec.Name, fmt.Sprintf("by schedulerName %s of component %s%s", spec.SchedulerName, component, ruledOut)}
		}
	}
	return ProviderChoice{specs.All[0].Name, "by default" + ruledOut}
}

// ChooseWorkload chooses the maker of the pods of a new deployment's multinode components; "" for Trellis itself. The maker for an existing
// deployment is frozen in its ScalingGroups, which ChooseWorkload does not read.
func ChooseWorkload(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	if name := dgd.Annotations[AnnotationWorkload]; name != specs.Pods {
		return name
	}
	return ""
}

// NamedProvider returns the provider that a deployment's annotations name, and the annotation that names it; "" for none.
func NamedProvider(annotations map[string]string) (name, annotation string) {
	for _, annotation := range []string{AnnotationProvider, AnnotationFormerProvider} {
		if name := annotations[annotation]; name != "" {
			return name, annotation
		}
	}
	for _, spec := range specs.All {
		if spec.WorkloadProvider != "" && annotations[specs.AnnotationWorkloadProvider] == spec.WorkloadProvider {
			return spec.Name, specs.AnnotationWorkloadProvider
		}
	}
	return "", ""
}

// rulesOut returns the annotation that excludes a provider; "" for none.
func rulesOut(annotations map[string]string, spec specs.Spec) string {
	for _, a := range spec.RuledOutBy {
		if annotations[a.Key] == a.Value {
			return a.Key
		}
	}
	return ""
}

// scheduledBy returns the name of the first component whose pods name this scheduler; "" for none.
func scheduledBy(dgd *nvidiav1beta1.DynamoGraphDeployment, scheduler string) string {
	for _, c := range Components(dgd) {
		if c.PodTemplate != nil && scheduler != "" && c.PodTemplate.Spec.SchedulerName == scheduler {
			return c.Name
		}
	}
	return ""
}
