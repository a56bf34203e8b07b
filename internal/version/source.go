// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package version

// Source is the version of this source tree: that of a release in the commit that is released, and in all others the next one with the
// suffix -dev, which is no release. No image is published of a development version. The definitions, the manifests and the chart name it,
// too; hack/release writes all of them.
const Source = "v0.3.0-dev"

// Annotation of the custom resource definitions has the Source that they were generated from.
const Annotation = "trellis.dev/version"
