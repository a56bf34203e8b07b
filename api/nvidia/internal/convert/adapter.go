// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

// convertAdapter renames the one field in which the versions of a scaling adapter differ. The conversion is lossless.
func convertAdapter(adapter object, to string) {
	spec, _ := clone(adapter["spec"]).(object)
	ref, ok := spec["dgdRef"].(object)
	if !ok {
		return
	}
	if to == Beta {
		spec["dgdRef"] = renamed(ref, "serviceName", "componentName")
	} else {
		spec["dgdRef"] = renamed(ref, "componentName", "serviceName")
	}
	adapter["spec"] = spec
}
