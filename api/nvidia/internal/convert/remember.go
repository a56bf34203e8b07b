// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import "slices"

// remember returns the memory of a translation. With this memory, back restores the original from the translation.
func remember(original, translated object, back translator) *memory {
	base := back(translated, nil)
	if equal(base, original) {
		return &memory{}
	}
	m := &memory{sparse: sparse(original, base), hash: fingerprint(translated)}
	if len(m.sparse) > 0 {
		base = back(translated, m.sparse)
	}
	for _, o := range diff(base, original) {
		if !addition(m.sparse, &o) {
			m.ops = append(m.ops, o)
		}
	}
	return m
}

// recall translates a part and restores the data in the memory. exact: nobody has edited the part since the memory was made.
func recall(live object, m *memory, forward, back translator) (result object, exact bool) {
	if m == nil {
		return forward(live, nil), false
	}
	result = forward(live, m.sparse)
	ops := slices.Concat(additions(m.sparse), m.ops)
	var restored any
	if exact = m.hash != "" && m.hash == fingerprint(live); exact {
		restored, _ = applyAll(result, ops)
	} else {
		restored = restore(result, ops, func(tree any) map[string]bool {
			o, _ := tree.(object)
			return keysOf(diff(back(o, whole(live)), live))
		})
	}
	if o, ok := restored.(object); ok {
		result = o
	}
	if !exact {
		dropDangling(result)
	}
	return result, exact
}

// dropDangling removes the name of a frontend sidecar whose container is gone.
func dropDangling(spec object) {
	for _, element := range listAt(spec, "components") {
		c, _ := element.(object)
		containers := listAt(objectAt(objectAt(c, "podTemplate"), "spec"), "containers")
		if name := textAt(c, "frontendSidecar"); name != "" && indexOf(containers, name) < 0 {
			delete(c, "frontendSidecar")
		}
	}
}
