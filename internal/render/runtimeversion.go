// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Versions of the runtime from which on components are started in another way.
var (
	// nativePicker has an endpoint picker of its own, which takes no arguments and reads no eppConfig.
	nativePicker = version.MustParseSemantic("1.5.0")
	// checkedWorker sends itself requests to see whether it serves, and may miss a liveness check or two meanwhile.
	checkedWorker = version.MustParseSemantic("1.5.0")
	// slowFrontend tries NATS and etcd, one after the other, for some time before it answers.
	slowFrontend = version.MustParseSemantic("1.6.0")
)

// since reports whether a runtime is of a version or a later one. Of one whose version is not known, it does not.
func since(runtime, first *version.Version) bool { return runtime != nil && !runtime.LessThan(first) }

// NativePicker reports whether the runtime of a component has an endpoint picker of its own. known is false where the version of the
// runtime cannot be determined.
func NativePicker(c *nvidiav1beta1.ComponentSpec) (native, known bool) {
	v := runtimeVersion(c)
	return since(v, nativePicker), v != nil
}

// runtimeVersion is what a component says itself, or else the tag of the image of its main container; nil where neither is a semantic
// version.
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

// versionOfImage is the version in the tag of an image; nil for none.
func versionOfImage(image string) *version.Version {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return semantic(tag)
}

// semantic reads a version. What follows the third number does not count: 1.5.0-rc.2 is 1.5.0.
func semantic(text string) *version.Version {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil
	}
	return version.MajorMinor(v.Major(), v.Minor()).WithPatch(v.Patch())
}
