// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// revision returns a short hash of the roles only, so replicas and topology may change without replacing a pod. It hashes the roles' JSON,
// whose map keys are sorted, so equal templates have equal hashes in every version of the operator.
func revision(roles []trellisv1alpha1.Role) string {
	raw, err := json.Marshal(roles)
	if err != nil {
		panic("pod templates do not marshal: " + err.Error()) // plain data; cannot happen
	}
	return digest(raw)
}

// digest returns a hash of 10 hex digits.
func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:5])
}
