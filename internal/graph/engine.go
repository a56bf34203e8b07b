// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Names of the engines: what gets gangs onto nodes. EngineAuto chooses by the deployment.
const (
	EngineAuto     = "auto"
	EngineGates    = "Gates"
	EnginePodGroup = "PodGroup"
	EngineKAI      = "KAI"
	EngineGrove    = "Grove"
)

// EngineNames are the accepted values of the operator's flag and of the annotation.
var EngineNames = []string{EngineAuto, EngineGates, EnginePodGroup, EngineKAI, EngineGrove}

const (
	// AnnotationEngine on a deployment names its engine. On a pod it names the engine the pod was made for, unless that is Gates.
	AnnotationEngine = "trellis.dev/engine"
	// AnnotationEnableGrove with the value "false" rules Grove out.
	AnnotationEnableGrove = "nvidia.com/enable-grove"
	// SchedulerKAI is the schedulerName of pods that KAI Scheduler places.
	SchedulerKAI = "kai-scheduler"
)

// EngineChoice is an engine and why it is the one.
type EngineChoice struct {
	Name string
	// Why is a part of a sentence: "by default", "by the annotation trellis.dev/engine".
	Why string
}

// ChooseEngine says which engine a new deployment gets. preset is the operator's own setting, EngineAuto or "" when it has none. What a
// deployment has been given once is frozen in its ScalingGroups and not asked here.
func ChooseEngine(dgd *nvidiav1beta1.DynamoGraphDeployment, preset string) EngineChoice {
	if name := dgd.Annotations[AnnotationEngine]; name != "" && name != EngineAuto {
		return EngineChoice{name, "by the annotation " + AnnotationEngine}
	}
	ruledOut := ""
	if preset == EngineGrove && dgd.Annotations[AnnotationEnableGrove] == "false" {
		preset, ruledOut = EngineAuto, fmt.Sprintf(", Grove being ruled out by the annotation %s", AnnotationEnableGrove)
	}
	if preset != "" && preset != EngineAuto {
		return EngineChoice{preset, "by the operator's flag --engine"}
	}
	if service := onKAI(dgd); service != "" {
		return EngineChoice{EngineKAI, fmt.Sprintf("by schedulerName %s of service %s%s", SchedulerKAI, service, ruledOut)}
	}
	return EngineChoice{EngineGates, "by default" + ruledOut}
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

// PlannedHere says that Trellis makes an engine's pods, gates them, and plans where they go. Under Grove it does not.
func PlannedHere(engine string) bool {
	return slices.Contains([]string{EngineGates, EnginePodGroup, EngineKAI}, engine)
}
