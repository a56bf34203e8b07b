// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"

// AnnotationMayMove on a deployment, with the value "true", allows that its replicas are restarted elsewhere so that a gang that waits gets
// a place.
const AnnotationMayMove = "trellis.dev/may-move"

// MayMove reports whether replicas of a deployment may move to free a place for others.
func MayMove(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return dgd.Annotations[AnnotationMayMove] == "true" && dgd.DeletionTimestamp == nil
}
