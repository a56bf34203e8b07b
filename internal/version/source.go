// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package version

// Source is the version of this source tree. In the commit of a release, it is the version of the release. In all other commits, it is the
// next version with the suffix -dev, which is not a release. No image is published for a development version. The
// CustomResourceDefinitions, the manifests and the chart also contain this version; hack/release writes all of them.
const Source = "v0.3.0-dev"

// Annotation on the CustomResourceDefinitions holds the Source from which they were generated.
const Annotation = "trellis.dev/version"
