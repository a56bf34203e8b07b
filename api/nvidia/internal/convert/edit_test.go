// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// edited is the place of an edit, and whether it was of a single value that v1alpha1 can say where it is. A claim that is not of its volume's name
// is said in extraPodSpec, with its mounts; and so is a mount whose new path another one has.
type edited struct {
	path   []string
	simple bool
}

func (e *edited) String() string { return strings.Join(e.path, "/") }

func (e *edited) scalar() bool { return e != nil && e.simple }

type place struct {
	path []string
	in   any // object or list
	key  string
}

// fixed are keys whose value is a name or one of few words.
var fixed = []string{"name", "sharedMemorySize", "type", "mode", "componentType", "subComponentType", "apiVersion", "pvcName", "enabled", "runtimeVersionOverride", "frontendSidecar",
	"domain", "labelKey", "enforcement", "clusterTopologyName", "preferredWeight", "gpuType", "disabled", "useAsCompilationCache"}

func places(value any, path []string, out *[]place) {
	switch v := value.(type) {
	case object:
		for _, key := range sorted(v) {
			if !slices.Contains(fixed, key) {
				*out = append(*out, place{path: below(path, key), in: v, key: key})
			}
			places(v[key], below(path, key), out)
		}
	case []any:
		for i, child := range v {
			key := fmt.Sprint(i)
			if o, ok := child.(object); ok && textAt(o, "name") != "" {
				key = textAt(o, "name")
			}
			places(child, below(path, key), out)
		}
	}
}

// edit changes or removes one value somewhere below a component, or nothing if there is none.
func edit(t *rapid.T, spec any) *edited {
	var all []place
	places(spec, nil, &all)
	all = slices.DeleteFunc(all, func(p place) bool {
		return len(p.path) < 3 || slices.Contains(p.path, "providerOverride") || removesNothing(p.in.(object)[p.key])
	})
	if len(all) == 0 {
		return nil
	}
	p := all[rapid.IntRange(0, len(all)-1).Draw(t, "place")]
	in := p.in.(object)
	done := &edited{path: p.path}
	switch value := in[p.key].(type) {
	case string:
		done.simple = p.key != "claimName" && p.key != "mountPath"
		in[p.key] = value + "1"
		if isAmount(value) && slices.ContainsFunc(p.path, func(key string) bool { return amountFields[key] }) {
			in[p.key] = "1" + value // the schema of v1beta1 takes quantities alone (see TestNoQuantity), and 1e311 is none
		}
	case json.Number:
		done.simple = true
		in[p.key] = json.Number("77")
	case bool:
		done.simple = true
		in[p.key] = !value
	default:
		delete(in, p.key)
	}
	return done
}

// removesNothing reports whether an edit would remove a value in which nothing is, such as {} or {httpGet: {}}: a fingerprint does not tell an object
// with it from one without, so that its removal is no edit.
func removesNothing(value any) bool {
	switch value.(type) {
	case string, json.Number, bool:
		return false
	}
	_, there := appendCanonical(nil, value)
	return !there
}
