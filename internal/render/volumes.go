// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
)

const (
	sharedMemoryVolume  = "shared-memory"
	sharedMemoryPath    = "/dev/shm"
	sharedMemoryDefault = "8Gi"

	vllmCachePath = "/root/.cache/vllm"
	vllmCacheEnv  = "VLLM_CACHE_ROOT"
)

// addCompilationCache mounts the claim that stores compiled kernels. The volume has the name of the claim. If the user has a volume of this
// name, addCompilationCache uses that volume.
func (t *templater) addCompilationCache(spec *corev1.PodSpec, c *corev1.Container) {
	cache := t.spec.CompilationCache
	if cache == nil || cache.PVCName == "" {
		return
	}
	path := t.cachePath(cache, c)
	if path == "" {
		t.invalid(t.path.Child("compilationCache", "mountPath"), "mountPath is required: the framework has no well-known cache")
		return
	}
	volume := volumeName(cache.PVCName)
	if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume }) {
		claim := corev1.PersistentVolumeClaimVolumeSource{ClaimName: cache.PVCName}
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &claim}})
	}
	mountAt(c, volume, path)
}

// cachePath returns the mount path of the compilation cache. For vLLM, it also sets the variable that contains this path.
func (t *templater) cachePath(cache *nvidiav1beta1.CompilationCache, c *corev1.Container) string {
	if t.framework(c) != framework.VLLM {
		return cache.MountPath
	}
	path := cmp.Or(cache.MountPath, vllmCachePath)
	if indexEnv(c.Env, vllmCacheEnv) < 0 {
		c.Env = append(c.Env, corev1.EnvVar{Name: vllmCacheEnv, Value: path})
	}
	return path
}

// framework returns the framework of the main container, or framework.None if it is unknown.
func (t *templater) framework(c *corev1.Container) string {
	name, err := framework.Detect(c, string(t.dgd.Spec.BackendFramework))
	if err != nil {
		return framework.None
	}
	return name
}

// volumeName returns the claim's name, shortened if it is too long for a volume.
func volumeName(claim string) string {
	if len(validation.IsDNS1123Label(claim)) == 0 {
		return claim
	}
	return hashed(dnsLabel(claim), claim, validation.DNS1123LabelMaxLength)
}

// mountAt mounts a volume, and replaces any other mount at the same path.
func mountAt(c *corev1.Container, volume, path string) {
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path })
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path})
}

// addVolume adds and mounts a volume. If the user has a volume of the same name, addVolume mounts the user's volume. If the user has a
// mount at the same path, addVolume does nothing.
func addVolume(spec *corev1.PodSpec, c *corev1.Container, volume corev1.Volume, mount corev1.VolumeMount) {
	if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == mount.MountPath }) {
		return
	}
	if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name }) {
		spec.Volumes = append(spec.Volumes, volume)
	}
	c.VolumeMounts = append(c.VolumeMounts, mount)
}

// mountsSSHKeys reports whether the pods of a component start over ssh.
func mountsSSHKeys(s *Component) bool {
	return slices.ContainsFunc(s.Roles, func(role trellisv1alpha1.Role) bool {
		return slices.ContainsFunc(role.Template.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == framework.SSHSecret
		})
	})
}

// addSharedMemory gives the main container a /dev/shm that is larger than the container runtime's default. A user's mount at /dev/shm takes
// precedence, unless sharedMemorySize is set.
func (t *templater) addSharedMemory(spec *corev1.PodSpec, c *corev1.Container) {
	size := t.spec.SharedMemorySize
	mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == sharedMemoryPath })
	switch {
	case size == nil && mounted, size != nil && size.IsZero():
		return
	case size == nil:
		size = ptr.To(resource.MustParse(sharedMemoryDefault))
	default:
		size = ptr.To(size.DeepCopy())
	}
	source := corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: size}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == sharedMemoryVolume })
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: sharedMemoryVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &source}})
	mountAt(c, sharedMemoryVolume, sharedMemoryPath)
}
