// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"regexp"
)

// The forms of what v1alpha1 keeps as any object and v1beta1 knows the fields of.
var (
	runtimeVersion = regexp.MustCompile(`^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$`)
	amountForm     = regexp.MustCompile(`^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`)
	domain         = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	labelKey       = regexp.MustCompile(`^(([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$`)
)

// isAmount says that a text is a quantity that a resource can have. Its length is bounded, as its parsing costs more than its length. Most texts
// show by their first character that they are none.
func isAmount(text string) bool {
	if text == "" || len(text) > 64 || (text[0] < '0' || text[0] > '9') && text[0] != '.' && text[0] != '+' {
		return false
	}
	return amountForm.MatchString(text)
}

// validOverride says that v1beta1's schema takes a providerOverride.
func validOverride(value any) bool {
	o, ok := value.(object)
	if !ok || !onlyKeys(o, "apiVersion", "target", "value") {
		return false
	}
	_, fragment := o["value"].(object)
	return textAt(o, "apiVersion") != "" && fragment && textOrNone(o, "target")
}

// validKVTransferPolicy says that v1beta1's schema takes a kvTransferPolicy.
func validKVTransferPolicy(value any) bool {
	o, ok := value.(object)
	if !ok || !onlyKeys(o, "labelKey", "clusterTopologyName", "domain", "enforcement", "preferredWeight") {
		return false
	}
	key, byKey := o["labelKey"].(string)
	topology, byTopology := o["clusterTopologyName"].(string)
	_, hasKey := o["labelKey"]
	_, hasTopology := o["clusterTopologyName"]
	weight, weighted := o["preferredWeight"]
	enforcement, enforced := o["enforcement"]
	switch {
	case hasKey == hasTopology || hasKey != byKey || hasTopology != byTopology:
		return false
	case byKey && (len(key) > 317 || !labelKey.MatchString(key)), byTopology && (topology == "" || len(topology) > 253):
		return false
	case !domain.MatchString(textAt(o, "domain")):
		return false
	case enforced && enforcement != "required" && enforcement != "preferred":
		return false
	}
	return weighted == (enforcement == "preferred") && (!weighted || fraction(weight))
}

func fraction(value any) bool {
	number, ok := value.(json.Number)
	f, err := number.Float64()
	return ok && err == nil && f >= 0 && f <= 1
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
