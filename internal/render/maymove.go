// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"

// AnnotationMayMove with the value "true" on a deployment allows recreating the deployment's replicas on other nodes, to free a place for a
// waiting gang.
const AnnotationMayMove = "trellis.dev/may-move"

// MayMove reports whether a deployment's replicas may move to free places for other graphs.
func MayMove(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return dgd.Annotations[AnnotationMayMove] == "true" && dgd.DeletionTimestamp == nil
}
