// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// AnnotationMayMove on a deployment, with the value "true", allows that its replicas are restarted elsewhere so that a gang that waits gets
// a place.
const AnnotationMayMove = "trellis.dev/may-move"
