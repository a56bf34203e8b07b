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
	// AnnotationFormerProvider is the former name of AnnotationProvider, which is read for one minor version.
	AnnotationFormerProvider = "trellis.dev/engine"
	// AnnotationPodProvider on a pod names the provider that the pod was made for, unless that is Gates.
	AnnotationPodProvider = "trellis.dev/engine"
)

// ProviderChoice is a provider and why it is the one.
type ProviderChoice struct {
	Name string
	// Why is a part of a sentence: "by default", "by the annotation trellis.dev/provider".
	Why string
}

// ChooseProvider reports which provider a new deployment gets. preset is the operator's own setting, [specs.Auto] or "" when it has none.
// What a deployment has been given once is frozen in its ScalingGroups and not asked here.
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

// ChooseWorkload describes what makes the pods of a new deployment's multinode components: "" is Trellis. What a deployment has been given
// once is frozen in its ScalingGroups and not asked here.
func ChooseWorkload(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	if name := dgd.Annotations[AnnotationWorkload]; name != specs.Pods {
		return name
	}
	return ""
}

// NamedProvider is the provider that a deployment's annotations name, and the annotation that does; "" for none.
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

// rulesOut is the annotation that rules a provider out; "" when none does.
func rulesOut(annotations map[string]string, spec specs.Spec) string {
	for _, a := range spec.RuledOutBy {
		if annotations[a.Key] == a.Value {
			return a.Key
		}
	}
	return ""
}

// scheduledBy names the first component whose pods ask for a scheduler; "" for no scheduler.
func scheduledBy(dgd *nvidiav1beta1.DynamoGraphDeployment, scheduler string) string {
	for _, c := range Components(dgd) {
		if c.PodTemplate != nil && scheduler != "" && c.PodTemplate.Spec.SchedulerName == scheduler {
			return c.Name
		}
	}
	return ""
}
