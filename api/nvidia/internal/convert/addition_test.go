// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// vacancy is a place of one object where another one has something and this one nothing.
type vacancy struct {
	path []string
	fill func()
}

// wholes are fields that the schema takes as they are or not at all: parts of two of them make none.
var wholes = []string{"kvTransferPolicy", "providerOverride"}

// vacancies lists what a donor has and an object has not, next to what both have: a field, or an element of a list of named objects.
func vacancies(here, donor object, path []string, out *[]vacancy) {
	for _, key := range sorted(donor) {
		at := below(path, key)
		value, there := here[key]
		if !there {
			*out = append(*out, vacancy{at, func() { here[key] = clone(donor[key]) }})
			continue
		}
		switch theirs := donor[key].(type) {
		case object:
			if ours, ok := value.(object); ok && !slices.Contains(wholes, key) {
				vacancies(ours, theirs, at, out)
			}
		case []any:
			if ours, ok := value.([]any); ok {
				elements(here, key, ours, theirs, at, out)
			}
		}
	}
}

func elements(holder object, key string, ours, theirs []any, path []string, out *[]vacancy) {
	_, named := names(ours)
	if _, also := names(theirs); !named || !also {
		return
	}
	for _, element := range theirs {
		name, at := nameOf(element), below(path, nameOf(element))
		if i := indexOf(ours, name); i >= 0 {
			vacancies(ours[i].(object), element.(object), at, out)
			continue
		}
		*out = append(*out, vacancy{at, func() { holder[key] = append(slices.Clone(ours), clone(element)) }})
	}
}

// add adds something that a spec of the same version has to a spec, and returns where; nil if the two have the same fields.
func add(t *rapid.T, spec, donor object) []string {
	var all []vacancy
	vacancies(spec, donor, nil, &all)
	if len(all) == 0 {
		return nil
	}
	v := all[rapid.IntRange(0, len(all)-1).Draw(t, "vacancy")]
	v.fill()
	return v.path
}

// change edits, removes or adds one thing anywhere in a spec, and returns where; nil if nothing was changed.
func change(t *rapid.T, spec, donor object) []string {
	if rapid.Bool().Draw(t, "adds") {
		return add(t, spec, donor)
	}
	if e := edit(t, spec); e != nil {
		return e.path
	}
	return nil
}

// createdIn draws an object of a version, as it is seen in the other version, and a spec of that other version to take additions from.
func createdIn(t *rapid.T, version string, objects, donors *rapid.Generator[object]) (original, live, donor object) {
	original = objects.Draw(t, "object")
	return original, convertTo(t, original, Other(version)), specOf(donors.Draw(t, "donor"))
}

// TestAdditionsComeBack is law (a) for an object to which something was added in the other version than its own, whatever it is: the field of one version
// alone, a component, a variable. The memory is written again, and is the same the second time.
func TestAdditionsComeBack(t *testing.T) {
	for _, version := range []string{Alpha, Beta} {
		t.Run(version, func(t *testing.T) {
			objects, donors := deployment(version), deployment(Other(version))
			rapid.Check(t, func(t *rapid.T) {
				_, live, donor := createdIn(t, version, objects, donors)
				path := add(t, specOf(live), donor)
				dropDangling(specOf(live))
				there := convertTo(t, live, version)
				back := convertTo(t, there, Other(version))
				same(t, "with "+strings.Join(path, "/")+", there and back", withoutMemories(back), withoutMemories(live))
				same(t, "the second time", convertTo(t, convertTo(t, back, version), Other(version)), back)
			})
		})
	}
}

// TestAdditionsShow is law (b) for additions. What v1beta1 says is, translated plainly, what v1alpha1 says.
func TestAdditionsShow(t *testing.T) {
	objects, donors := deployment(Alpha), deployment(Beta)
	rapid.Check(t, func(t *rapid.T) {
		_, live, donor := createdIn(t, Alpha, objects, donors)
		path := add(t, specOf(live), donor)
		dropDangling(specOf(live))
		plain := toBeta(specOf(convertTo(t, live, Alpha)))
		said := clone(specOf(live)).(object)
		forgiveSidecars(said, plain)
		onlyInBeta(said)
		onlyInBeta(plain)
		same(t, "the addition of "+strings.Join(path, "/")+" in v1alpha1, seen from v1beta1", numbersAsTexts(pruned(plain)), numbersAsTexts(pruned(said)))
	})
}

// TestNothingSaidIsOverridden is law (b) for additions in v1alpha1: what that says plainly is in v1beta1 as it is, and what is remembered is next to it.
func TestNothingSaidIsOverridden(t *testing.T) {
	objects, donors := deployment(Beta), deployment(Alpha)
	rapid.Check(t, func(t *rapid.T) {
		_, live, donor := createdIn(t, Beta, objects, donors)
		path := add(t, specOf(live), donor)
		plain, edited := toBeta(specOf(live)), specOf(convertTo(t, live, Beta))
		dropDangling(plain)
		for _, o := range diff(numbersAsTexts(plain), numbersAsTexts(edited)) {
			if o.order == nil && o.was != "" {
				t.Fatalf("with %s, v1beta1 has another %s: %+v", path, strings.Join(o.path, "/"), o)
			}
		}
	})
}

// TestTheRestStays is law (c). A change of one component, or of one field of the spec, leaves every other component and field as it was written in its own
// version, with all that this version alone can say.
func TestTheRestStays(t *testing.T) {
	for _, version := range []string{Alpha, Beta} {
		t.Run(version, func(t *testing.T) {
			objects, donors := deployment(version), deployment(Other(version))
			rapid.Check(t, func(t *rapid.T) {
				original, live, donor := createdIn(t, version, objects, donors)
				path := change(t, specOf(live), donor)
				if len(path) == 0 || slices.Contains([]string{"env", "envs"}, path[0]) {
					return // a variable of the spec overrides those of components
				}
				dropDangling(specOf(live))
				edited := specOf(convertTo(t, live, version))
				inComponent := path[0] == "components" || path[0] == "services"
				before, after := entries(specOf(original)), entries(edited)
				for name, was := range before {
					if !inComponent || len(path) > 1 && path[1] != name {
						same(t, "after a change of "+strings.Join(path, "/")+", component "+name, after[name], was)
					}
				}
				for _, key := range slices.Sorted(maps.Keys(specOf(original))) {
					if key != path[0] && key != "components" && key != "services" {
						same(t, "after a change of "+strings.Join(path, "/")+", "+key, edited[key], specOf(original)[key])
					}
				}
			})
		})
	}
}

// onlyInBeta drops what v1alpha1 has no word for: it is remembered. So are the orders of components
// and containers, and of variables that v1alpha1 has in two lists.
func onlyInBeta(spec object) {
	byName(spec, "components")
	for _, c := range entries(spec) {
		pod := objectAt(objectAt(c, "podTemplate"), "spec")
		byName(pod, "containers")
		for _, container := range listAt(pod, "containers") {
			byName(container.(object), "env")
		}
	}
	for _, c := range entries(spec) {
		delete(objectAt(c, "experimental"), "grove")
		for key := range objectAt(objectAt(c, "podTemplate"), "metadata") {
			if key != "annotations" && key != "labels" {
				delete(objectAt(objectAt(c, "podTemplate"), "metadata"), key)
			}
		}
	}
}

func byName(o object, key string) {
	if list := listAt(o, key); list != nil {
		o[key] = slices.SortedStableFunc(slices.Values(list), func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
	}
}

// numbersAsTexts is a tree whose numbers are texts: v1alpha1 writes an amount as a text, v1beta1 as either, and what was written is remembered.
func numbersAsTexts(value any) any {
	switch v := value.(type) {
	case object:
		out := object{}
		for key, child := range v {
			out[key] = numbersAsTexts(child)
		}
		return out
	case []any:
		out := []any{}
		for _, child := range v {
			out = append(out, numbersAsTexts(child))
		}
		return out
	case json.Number:
		return v.String()
	}
	return value
}
