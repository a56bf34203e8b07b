// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Versions of the Dynamo runtime that changed how components start.
var (
	// nativePicker is the first version with an endpoint picker that takes no arguments and reads no eppConfig.
	nativePicker = version.MustParseSemantic("1.5.0")
	// checkedWorker is the first version with workers that check their health by sending requests to themselves. During such a check, a
	// worker may miss liveness probes.
	checkedWorker = version.MustParseSemantic("1.5.0")
	// slowFrontend is the first version with frontends that try NATS and then etcd, for some time, before they answer probes.
	slowFrontend = version.MustParseSemantic("1.6.0")
)

// since reports whether "runtime" is version "first" or later; false for an unknown version.
func since(runtime, first *version.Version) bool { return runtime != nil && !runtime.LessThan(first) }

// NativePicker reports whether the runtime of a component has a native endpoint picker. known is false if the runtime's version is unknown.
func NativePicker(c *nvidiav1beta1.ComponentSpec) (native, known bool) {
	v := runtimeVersion(c)
	return since(v, nativePicker), v != nil
}

// runtimeVersion returns the version that a component states, or otherwise the version in the image tag of its main container. It returns
// nil if there is no version, or if the version is not semantic.
func runtimeVersion(c *nvidiav1beta1.ComponentSpec) *version.Version {
	if c.RuntimeVersionOverride != "" {
		return semantic(c.RuntimeVersionOverride)
	}
	if c.PodTemplate == nil {
		return nil
	}
	main := indexContainer(c.PodTemplate.Spec.Containers, nvidiav1beta1.MainContainerName)
	if main < 0 {
		return nil
	}
	return versionOfImage(c.PodTemplate.Spec.Containers[main].Image)
}

// versionOfImage returns the version in the tag of an image; nil for none.
func versionOfImage(image string) *version.Version {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return semantic(tag)
}

// semantic parses a version and drops everything after the patch number: 1.5.0-rc.2 becomes 1.5.0.
func semantic(text string) *version.Version {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil
	}
	return version.MajorMinor(v.Major(), v.Minor()).WithPatch(v.Patch())
}
