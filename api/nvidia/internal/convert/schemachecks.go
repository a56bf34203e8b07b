// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"regexp"

	"github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// The formats of fields that v1alpha1 accepts in any form and v1beta1 validates.
var (
	runtimeVersion = regexp.MustCompile(`^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$`)
	amountForm     = regexp.MustCompile(`^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`)
)

// isAmount reports whether a text is a quantity that a resource can have. It bounds the length, because parsing a long text is expensive,
// and rejects most texts by their first character.
func isAmount(text string) bool {
	if text == "" || len(text) > 64 || (text[0] < '0' || text[0] > '9') && text[0] != '.' && text[0] != '+' {
		return false
	}
	return amountForm.MatchString(text)
}

// validOverride reports whether v1beta1's schema accepts a providerOverride.
func validOverride(value any) bool {
	o, ok := value.(object)
	if !ok || !onlyKeys(o, "apiVersion", "target", "value") {
		return false
	}
	_, fragment := o["value"].(object)
	return textAt(o, "apiVersion") != "" && fragment && textOrNone(o, "target")
}

// validKVTransferPolicy reports whether v1beta1's schema accepts a kvTransferPolicy.
func validKVTransferPolicy(value any) bool {
	o, ok := value.(object)
	if !ok || !onlyKeys(o, "labelKey", "clusterTopologyName", "domain", "enforcement", "preferredWeight") {
		return false
	}
	for _, written := range o {
		if written == nil || written == "" {
			return false
		}
	}
	policy := v1beta1.KVTransferPolicy{}
	raw, err := json.Marshal(o)
	return err == nil && json.Unmarshal(raw, &policy) == nil && len(policy.Problems()) == 0
}

func onlyKeys(o object, keys ...string) bool {
	known := 0
	for _, key := range keys {
		if _, ok := o[key]; ok {
			known++
		}
	}
	return known == len(o)
}

func textOrNone(o object, key string) bool {
	value, ok := o[key]
	_, text := value.(string)
	return text || !ok
}
