// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// valueKind determines how two values of a field are compared.
type valueKind int

const (
	anything valueKind = iota
	// text: the values of this field and of all fields below it are compared as text.
	text
	// duration: 15m and 15m0s are equal.
	duration
	// quantity: 1000m and 1 are equal. quantities: a map of quantities.
	quantity
	quantities
)

// kinds maps field names to kinds. The values of all other fields, e.g. of environment variables, are compared as text, even if they look
// like durations.
var kinds = map[string]valueKind{
	"labels": text, "annotations": text, "matchLabels": text, "nodeSelector": text,
	"terminationDelay": duration, "stalenessGracePeriod": duration,
	"sizeLimit": quantity, "divisor": quantity,
	"limits": quantities, "requests": quantities, "overhead": quantities, "capacity": quantities,
}

// kindOf returns the kind of a field. in is the kind of its parent field.
func kindOf(field string, in valueKind) valueKind {
	switch in {
	case text:
		return text
	case quantities:
		return quantity
	}
	return kinds[field]
}

func (k valueKind) same(want, have string) bool {
	if want == have {
		return true
	}
	switch k {
	case duration:
		a, err1 := time.ParseDuration(want)
		b, err2 := time.ParseDuration(have)
		return err1 == nil && err2 == nil && a == b
	case quantity:
		a, err1 := resource.ParseQuantity(want)
		b, err2 := resource.ParseQuantity(have)
		return err1 == nil && err2 == nil && a.Cmp(b) == 0
	}
	return false
}
