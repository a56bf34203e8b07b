// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"strings"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
)

// What names the queue of KAI Scheduler: on the deployment itself, under the engines that KAI schedules for. KAI reads the label on pods.
const (
	AnnotationQueue = "nvidia.com/kai-scheduler-queue"
	LabelQueue      = "kai.scheduler/queue"
)

// annotationsNotActedOn mean something to other operators of the kind, and nothing here yet.
var annotationsNotActedOn = []string{
	"nvidia.com/grove-update-strategy",
	AnnotationQueue,
	"nvidia.com/volcano-queue",
	"nvidia.com/workload-provider",
}

const ownAnnotations = "metadata.annotations"

// NotActedOn lists the paths of what a deployment says that Trellis accepts and does nothing about: first the deployment's own, then each
// service's by name. preset is the operator's engine, as in ChooseEngine. Deprecated and removed fields are not among them; admission has
// words of its own for those.
func NotActedOn(dgd *nvidiav1alpha1.DynamoGraphDeployment, preset string) []string {
	engine := ChooseEngine(dgd, preset).Name
	queued := engine == EngineKAI || engine == EngineGrove
	var paths []string
	add := func(set bool, path string) {
		if set {
			paths = append(paths, path)
		}
	}
	annotations := func(path string, annotations map[string]string) {
		for _, key := range annotationsNotActedOn {
			_, set := annotations[key]
			acted := key == AnnotationQueue && queued && path == ownAnnotations
			add(set && !acted, path+"["+key+"]")
		}
	}
	annotations(ownAnnotations, dgd.Annotations)
	annotations("spec.annotations", dgd.Spec.Annotations)
	add(dgd.Spec.ProviderOverride != nil, "spec.providerOverride")
	add(dgd.Spec.Experimental != nil, "spec.experimental")
	for _, name := range sortedKeys(dgd.Spec.Services) {
		if spec := dgd.Spec.Services[name]; spec != nil {
			annotations(servicePath(name)+".annotations", spec.Annotations)
			serviceNotActedOn(spec, func(set bool, field string) { add(set, servicePath(name)+"."+field) })
		}
	}
	return paths
}

func serviceNotActedOn(spec *nvidiav1alpha1.ServiceSpec, add func(set bool, field string)) {
	ingress := spec.Ingress != nil && spec.Ingress.Enabled
	frontend := spec.ComponentType == nvidiav1alpha1.ComponentTypeFrontend
	add(ingress && !frontend, "ingress")
	add(ingress && frontend && spec.Ingress.UseVirtualService, "ingress.useVirtualService")
	add(spec.MinAvailable != nil, "minAvailable")
	add(spec.EPPConfig != nil && spec.ComponentType != nvidiav1alpha1.ComponentTypeEPP, "eppConfig")
	add(spec.Checkpoint != nil, "checkpoint")
	add(spec.GPUMemoryService != nil && spec.GPUMemoryService.Enabled, "gpuMemoryService")
	add(spec.Failover != nil && spec.Failover.Enabled, "failover")
	add(spec.ProviderOverride != nil, "providerOverride")
	add(spec.Multinode != nil && spec.Multinode.Leader != nil, "multinode.leader")
	add(spec.Multinode != nil && spec.Multinode.Worker != nil, "multinode.worker")
	add(spec.RuntimeVersionOverride != "", "runtimeVersionOverride")
}

// LaunchWarnings says what the user has to know about how multinode services start.
func LaunchWarnings(dgd *nvidiav1alpha1.DynamoGraphDeployment) []string {
	var asWritten []string
	for _, name := range sortedKeys(dgd.Spec.Services) {
		nodes, multinode := nodeCount(dgd.Spec.Services[name])
		if !multinode {
			continue
		}
		t := newTemplater(dgd, name, dgd.Spec.Services[name])
		t.roles(nodes)
		if len(t.errs) == 0 && !t.launched { // with errors it is refused anyway
			asWritten = append(asWritten, name)
		}
	}
	if len(asWritten) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(
		"spec.services[*].multinode: how the pods form one program cannot be told from the command, so each starts as written; it finds the others by $%s, $%s and $%s (%s)",
		framework.EnvLeaderAddress, framework.EnvHosts, framework.EnvPodIndex, few(asWritten))}
}

// few lists at most three names: the API server cuts long warnings.
func few(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
