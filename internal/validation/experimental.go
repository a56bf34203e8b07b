// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// Trellis ignores gpuMemoryService, failover and checkpoint. Admission requires them to be consistent nevertheless, because Dynamo's own
// operator and later versions of Trellis act on them.

const interPod = "InterPod"

var workerTypes = []nvidiav1beta1.ComponentType{
	nvidiav1beta1.ComponentTypeWorker, nvidiav1beta1.ComponentTypePrefill, nvidiav1beta1.ComponentTypeDecode,
}

// experimental returns the component's experimental settings; empty if there are none.
func (s component) experimental() nvidiav1beta1.ComponentExperimental {
	if s.Experimental == nil {
		return nvidiav1beta1.ComponentExperimental{}
	}
	return *s.Experimental
}

// deviceService checks gpuMemoryService.
func deviceService(s component) field.ErrorList {
	path := s.path.Child("experimental", "gpuMemoryService")
	errs := clientNames(s, path)
	g := s.experimental().GPUMemoryService
	if g == nil {
		return errs
	}
	if !slices.Contains(workerTypes, s.Type) {
		errs = append(errs, field.Forbidden(path, "is for workers only; set %s worker, or remove it", field.WordType))
	}
	if !s.hasGPU() {
		errs = append(errs, field.Forbidden(path, "needs a GPU; set %s to 1 or more, or remove it", field.WordGPULimit))
	}
	if len(g.ExtraClientPods) > 0 {
		errs = append(errs, field.Forbidden(path.Child("extraClientPods"), "is reserved and does nothing yet; remove it"))
	}
	if g.Mode != interPod {
		return append(errs, clientContainers(s, path.Child("extraClientContainers"), g.ExtraClientContainers)...)
	}
	if len(g.ExtraClientContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("extraClientContainers"), "is for mode %s only; remove it, or change the mode",
			field.WordIntraPod))
	}
	if s.graph.Spec.BackendFramework != nvidiav1beta1.BackendFrameworkVLLM {
		errs = append(errs, badValue(field.ErrorTypeInvalid, path.Child("mode"), modeAsWritten(s, g.Mode),
			"is for vLLM only; set spec.backendFramework to vllm, or use mode %s", field.WordIntraPod))
	}
	return errs
}

// modeAsWritten returns a mode in the spelling of the user's API version. In v1alpha1, modes start with a lower-case letter.
func modeAsWritten(s component, mode string) string {
	if mode != "" && (s.alpha.GPUMemoryService != nil || s.alpha.Failover != nil) {
		return strings.ToLower(mode[:1]) + mode[1:]
	}
	return mode
}

// clientContainers checks that each extra client container is listed once and is a container of the component's pods. Client containers
// share the devices of the main container, so they must be in the same pod.
func clientContainers(s component, path *field.Path, names []string) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, name := range names {
		switch {
		case seen.Has(name):
			errs = append(errs, badValue(field.ErrorTypeDuplicate, path.Index(i), name, "name each container once"))
		case !slices.ContainsFunc(s.template().Spec.Containers, func(c corev1.Container) bool { return c.Name == name }):
			errs = append(errs, badValue(field.ErrorTypeNotFound, path.Index(i), name, "name a container of its pods"))
		}
		seen.Insert(name)
	}
	return errs
}

// clientNames checks the names of v1alpha1 client containers by the rule of the v1beta1 schema, even if gpuMemoryService is disabled.
func clientNames(s component, path *field.Path) field.ErrorList {
	if s.alpha.GPUMemoryService == nil {
		return nil
	}
	return containerNames(path.Child("extraClientContainers"), s.alpha.GPUMemoryService.ExtraClientContainers)
}

func containerNames(path *field.Path, names []string) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		errs = append(errs, containerName(path.Index(i), name)...)
	}
	return errs
}

func containerName(path *field.Path, name string) field.ErrorList {
	if why := validation.IsDNS1123Label(name); len(why) > 0 {
		return one(badValue(field.ErrorTypeInvalid, path, name, "not the name of a container: "+why[0]))
	}
	return nil
}

// hasGPU reports whether the main container has a limit for GPUs of any kind.
func (s component) hasGPU() bool {
	c := s.mainContainer()
	if c == nil {
		return false
	}
	for name, quantity := range c.Resources.Limits {
		if strings.Contains(string(name), "gpu") && quantity.Sign() > 0 {
			return true
		}
	}
	return false
}

// failover checks that shadow engines can access the GPU memory of the active engine.
func failover(s component) field.ErrorList {
	path, f, g := s.path.Child("experimental", "failover"), s.experimental().Failover, s.experimental().GPUMemoryService
	if f == nil {
		return nil
	}
	var errs field.ErrorList
	switch {
	case g == nil:
		errs = append(errs, field.Forbidden(path, "needs gpuMemoryService of the same mode; add it, or remove failover"))
	case (g.Mode == interPod) != (f.Mode == interPod):
		errs = append(errs, badValue(field.ErrorTypeInvalid, path.Child("mode"), modeAsWritten(s, f.Mode),
			"must be the mode of gpuMemoryService"))
	}
	if f.Mode != interPod && f.NumShadows > 1 {
		errs = append(errs, field.Invalid(path.Child("numShadows"), f.NumShadows, "must be 1 with mode %s; leave it out, or use mode %s",
			field.WordIntraPod, field.WordInterPod))
	}
	return errs
}

// containerDiscovery requires the discovery mode "container" for failover inside one pod, because the pod's engines differ only in their
// containers.
func containerDiscovery(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	mode := dgd.Annotations[annotationDiscoveryMode]
	inPod := slices.ContainsFunc(componentsOf(dgd), func(s component) bool {
		f := s.experimental().Failover
		return f != nil && f.Mode != interPod
	})
	if !inPod || mode == "container" {
		return nil
	}
	return one(badValue(field.ErrorTypeInvalid, annotationPath(annotationDiscoveryMode), mode, `must be "container" with failover of mode %s`,
		field.WordIntraPod))
}

// checkpoint checks that the known fields of a checkpoint are valid and consistent. It accepts any other content.
func checkpoint(s component) field.ErrorList {
	path, raw := s.path.Child("experimental", "checkpoint"), s.experimental().Checkpoint
	if raw == nil {
		return nil
	}
	c := struct {
		Enabled             bool   `json:"enabled"`
		CheckpointRef       string `json:"checkpointRef"`
		TargetContainerName string `json:"targetContainerName"`
		Job                 *struct {
			Clients []string `json:"gmsClientContainers"`
		} `json:"job"`
	}{}
	if err := json.Unmarshal(raw.Raw, &c); err != nil {
		return one(field.Invalid(path, field.OmitValueType{}, "cannot be read: "+short(err.Error())))
	}
	var errs field.ErrorList
	g := s.experimental().GPUMemoryService
	if c.Enabled && s.Type != "" && !slices.Contains(workerTypes, s.Type) {
		errs = append(errs, field.Forbidden(path, "is for workers only; remove it"))
	}
	if c.Enabled && g != nil && g.Mode == interPod {
		errs = append(errs, field.Forbidden(path, "cannot be combined with gpuMemoryService of mode %s; remove one of the two",
			field.WordInterPod))
	}
	if c.TargetContainerName != "" {
		errs = append(errs, containerName(path.Child("targetContainerName"), c.TargetContainerName)...)
	}
	if c.Job == nil {
		return errs
	}
	if c.CheckpointRef != "" {
		errs = append(errs, field.Forbidden(path.Child("job"),
			"cannot be set together with checkpointRef: nothing is to be created; remove one of the two"))
	}
	clients := path.Child("job", "gmsClientContainers")
	if len(c.Job.Clients) > 0 && (g == nil || g.Mode == interPod) {
		errs = append(errs, field.Forbidden(clients, "needs gpuMemoryService of mode %s; add it, or remove the list", field.WordIntraPod))
	}
	return append(errs, containerNames(clients, c.Job.Clients)...)
}
