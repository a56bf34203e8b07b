// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"strings"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
)

// annotationsNotActedOn mean something to other operators of the kind, and nothing here yet.
var annotationsNotActedOn = []string{
	"nvidia.com/grove-update-strategy",
	"nvidia.com/kai-scheduler-queue",
	"nvidia.com/volcano-queue",
}

// NotActedOn lists the paths of what a deployment says that Trellis accepts and does nothing about: first the deployment's own, then each
// service's by name. Deprecated and removed fields are not among them; admission has words of its own for those.
func NotActedOn(dgd *nvidiav1alpha1.DynamoGraphDeployment) []string {
	var paths []string
	add := func(set bool, path string) {
		if set {
			paths = append(paths, path)
		}
	}
	for _, key := range annotationsNotActedOn {
		_, set := dgd.Annotations[key]
		add(set, "metadata.annotations["+key+"]")
	}
	for i, pvc := range dgd.Spec.PVCs {
		add(pvc.Create != nil && *pvc.Create, fmt.Sprintf("spec.pvcs[%d].create", i))
	}
	add(dgd.Spec.ProviderOverride != nil, "spec.providerOverride")
	add(dgd.Spec.Experimental != nil, "spec.experimental")
	for _, name := range sortedKeys(dgd.Spec.Services) {
		if spec := dgd.Spec.Services[name]; spec != nil {
			serviceNotActedOn(spec, func(set bool, field string) { add(set, servicePath(name)+"."+field) })
		}
	}
	return paths
}

func serviceNotActedOn(spec *nvidiav1alpha1.ServiceSpec, add func(set bool, field string)) {
	add(spec.Ingress != nil && spec.Ingress.Enabled, "ingress")
	add(spec.ModelRef != nil, "modelRef")
	add(spec.MinAvailable != nil, "minAvailable")
	add(spec.EPPConfig != nil, "eppConfig")
	add(spec.Checkpoint != nil, "checkpoint")
	add(spec.GPUMemoryService != nil && spec.GPUMemoryService.Enabled, "gpuMemoryService")
	add(spec.Failover != nil && spec.Failover.Enabled, "failover")
	add(spec.ProviderOverride != nil, "providerOverride")
	add(spec.Multinode != nil && spec.Multinode.Leader != nil, "multinode.leader")
	add(spec.Multinode != nil && spec.Multinode.Worker != nil, "multinode.worker")
	add(spec.RuntimeVersionOverride != "", "runtimeVersionOverride")
}

// LaunchWarnings says, one line a kind, what the user has to know about how multinode services start.
func LaunchWarnings(dgd *nvidiav1alpha1.DynamoGraphDeployment) []string {
	var asWritten, overSSH []string
	for _, name := range sortedKeys(dgd.Spec.Services) {
		nodes, multinode := nodeCount(dgd.Spec.Services[name])
		if !multinode {
			continue
		}
		t := newTemplater(dgd, name, dgd.Spec.Services[name])
		main := t.mainContainer()
		t.roles(nodes)
		switch {
		case len(t.errs) > 0: // refused anyway
		case !t.launched:
			asWritten = append(asWritten, name)
		case framework.Found(&main) == framework.TRTLLM:
			overSSH = append(overSSH, name)
		}
	}
	var warnings []string
	if len(asWritten) > 0 {
		warnings = append(warnings, fmt.Sprintf(
			"spec.services[*].multinode: how the pods form one program cannot be told from the command, so each starts as written; it finds the others by $%s, $%s and $%s (%s)",
			framework.EnvLeaderAddress, framework.EnvHosts, framework.EnvPodIndex, few(asWritten)))
	}
	if len(overSSH) > 0 {
		warnings = append(warnings, fmt.Sprintf(
			"spec.services[*].multinode: TensorRT-LLM starts over ssh and needs Secret %q with keys private.key and private.key.pub in the namespace; pods wait until it is there (%s)",
			framework.SSHSecret, few(overSSH)))
	}
	return warnings
}

// few lists at most three names: the API server cuts long warnings.
func few(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
