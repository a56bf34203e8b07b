// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// sidecarContainer is the name of the container that frontendSidecar adds.
const sidecarContainer = "sidecar-frontend"

func replicas(s component) field.ErrorList {
	var errs field.ErrorList
	if r := s.Replicas; r != nil && *r < 0 {
		errs = append(errs, field.Invalid(s.path.Child("replicas"), *r, "%s must be non-negative", s.path.Child("replicas")))
	}
	if m := s.MinAvailable; m != nil && *m < 1 {
		errs = append(errs, field.Invalid(s.path.Child("minAvailable"), *m, "must be at least 1, or left out"))
	}
	return errs
}

// nodeCount checks the number of nodes. 0 is allowed and means the default of two, which the API server sets.
func nodeCount(s component) field.ErrorList {
	if s.Multinode == nil || s.Multinode.NodeCount == 0 || s.Multinode.NodeCount >= 2 {
		return nil
	}
	return one(field.Invalid(s.path.Child("multinode", "nodeCount"), s.Multinode.NodeCount,
		"must be at least 2; remove multinode from a %s whose replicas sit on one node", field.WordComponent))
}

func ingress(s component) field.ErrorList {
	if in := s.alpha.Ingress; in == nil || !in.Enabled || in.Host != "" {
		return nil
	}
	path := s.path.Child("ingress", "host")
	return one(field.Required(path, "%s is required when ingress is enabled", path))
}

func volumeMounts(s component) field.ErrorList {
	var errs field.ErrorList
	for i, m := range s.alpha.VolumeMounts {
		path := s.mainPath("volumeMounts").Index(i).InAlpha(s.path.Child("volumeMounts").Index(i))
		if m.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "name a claim of spec.pvcs"))
		}
		if m.MountPoint == "" && !m.UseAsCompilationCache {
			errs = append(errs, field.Required(path.Child("mountPoint"),
				"%s is required when useAsCompilationCache is false", path.Child("mountPoint")))
		}
	}
	return errs
}

// frontendSidecar checks the sidecar. In v1alpha1, frontendSidecar adds a container with a fixed name; in v1beta1, it names a container of
// the podTemplate.
func frontendSidecar(s component) field.ErrorList {
	if s.alpha.FrontendSidecar == nil {
		return namedSidecar(s)
	}
	var errs field.ErrorList
	if s.alpha.FrontendSidecar.Image == "" {
		errs = append(errs, field.Required(s.path.Child("frontendSidecar").InAlpha(s.path.Child("frontendSidecar", "image")),
			"name the frontend's image"))
	}
	if extra := s.alpha.ExtraPodSpec; extra != nil && extra.PodSpec != nil {
		for i := range extra.PodSpec.Containers {
			if name := extra.PodSpec.Containers[i].Name; name == sidecarContainer {
				errs = append(errs, badValue(field.ErrorTypeDuplicate, s.podPath("containers").Index(i).Child("name"), name,
					"frontendSidecar makes a container of this name; rename this one"))
			}
		}
	}
	return errs
}

func namedSidecar(s component) field.ErrorList {
	path := s.path.Child("frontendSidecar")
	switch {
	case s.FrontendSidecar == "":
		return nil
	case s.FrontendSidecar == nvidiav1beta1.MainContainerName:
		return one(badValue(field.ErrorTypeInvalid, path, s.FrontendSidecar, "must name another container than the main one"))
	case !slices.ContainsFunc(s.template().Spec.Containers, func(c corev1.Container) bool { return c.Name == s.FrontendSidecar }):
		return one(badValue(field.ErrorTypeNotFound, path, s.FrontendSidecar, "must be the name of a container in podTemplate.spec.containers"))
	}
	return nil
}

// deviceModes checks the modes of gpuMemoryService and failover.
func deviceModes(s component) field.ErrorList {
	var errs field.ErrorList
	mode := func(path *field.Path, value string) {
		if allowed := []string{"intraPod", "interPod"}; value != "" && !slices.Contains(allowed, value) {
			errs = append(errs, field.NotSupported(path, short(value), allowed))
		}
	}
	if g := s.alpha.GPUMemoryService; g != nil {
		mode(s.path.Child("experimental", "gpuMemoryService", "mode"), g.Mode)
	}
	if f := s.alpha.Failover; f != nil {
		mode(s.path.Child("experimental", "failover", "mode"), f.Mode)
		if f.NumShadows < 0 {
			errs = append(errs, field.Invalid(s.path.Child("experimental", "failover", "numShadows"), f.NumShadows, "must be non-negative"))
		}
	}
	return errs
}

// claimOf reports whether spec.pvcs or the pod's own volumes contain the claim that a mount names.
func claimOf(s component, name string) bool {
	listed := slices.ContainsFunc(s.pvcs, func(c nvidiav1alpha1.PVC) bool { return c.Name != nil && *c.Name == name })
	if extra := s.alpha.ExtraPodSpec; listed || extra == nil || extra.PodSpec == nil {
		return listed
	}
	return slices.ContainsFunc(s.alpha.ExtraPodSpec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}
