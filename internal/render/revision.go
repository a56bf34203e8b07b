// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// revision is a short hash of the roles alone: replicas and topology may change without touching a pod. It hashes their JSON, whose map
// keys are sorted, so that equal templates hash equal in every version of the operator.
func revision(roles []trellisv1alpha1.Role) string {
	raw, err := json.Marshal(roles)
	if err != nil {
		panic("pod templates do not marshal: " + err.Error()) // plain data; cannot happen
	}
	return digest(raw)
}

// digest is the 10 hex digits that tell contents apart.
func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:5])
}
