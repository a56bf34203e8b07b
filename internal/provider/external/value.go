// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// valueKind is how two texts of a field compare.
type valueKind int

const (
	anything valueKind = iota
	// text is compared letter by letter, with all below it.
	text
	// duration: 15m and 15m0s are one value.
	duration
	// quantity: 1000m and 1 are one value. quantities are a map of them.
	quantity
	quantities
)

// kinds of fields by name. The value of an environment variable or a label is its text, also where that looks like a duration.
var kinds = map[string]valueKind{
	"labels": text, "annotations": text, "matchLabels": text, "nodeSelector": text,
	"terminationDelay": duration, "stalenessGracePeriod": duration,
	"sizeLimit": quantity, "divisor": quantity,
	"limits": quantities, "requests": quantities, "overhead": quantities, "capacity": quantities,
}

// kindOf a field of an object of kind in.
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
