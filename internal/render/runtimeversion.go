// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// nativePicker is the first version of the runtime that has an endpoint picker of its own. That one takes no arguments and reads no eppConfig.
var nativePicker = version.MustParseSemantic("1.5.0")

// NativePicker reports whether the runtime of a component has an endpoint picker of its own. known is false where the version of the runtime cannot be
// determined.
func NativePicker(c *nvidiav1beta1.ComponentSpec) (native, known bool) {
	v := runtimeVersion(c)
	return v != nil && !v.LessThan(nativePicker), v != nil
}

// runtimeVersion is what a component says itself, or else the tag of the image of its main container; nil where neither is a semantic version.
// What follows the third number does not count: 1.5.0-rc.2 is 1.5.0.
func runtimeVersion(c *nvidiav1beta1.ComponentSpec) *version.Version {
	text := c.RuntimeVersionOverride
	if text == "" && c.PodTemplate != nil {
		for i := range c.PodTemplate.Spec.Containers {
			if main := &c.PodTemplate.Spec.Containers[i]; main.Name == nvidiav1beta1.MainContainerName {
				image, _, _ := strings.Cut(main.Image, "@")
				_, text, _ = strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
			}
		}
	}
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil
	}
	return version.MajorMinor(v.Major(), v.Minor()).WithPatch(v.Patch())
}
