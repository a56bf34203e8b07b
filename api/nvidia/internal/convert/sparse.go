// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"slices"
	"strings"
)

// entries returns the services or components of a spec, by name.
func entries(spec object) map[string]object {
	out := map[string]object{}
	for name, value := range objectAt(spec, "services") {
		if o, ok := value.(object); ok {
			out[name] = o
		}
	}
	list := listAt(spec, "components")
	if _, ok := names(list); ok {
		for _, element := range list {
			o := element.(object)
			out[textAt(o, "name")] = o
		}
	}
	return out
}

// sparse returns the fields of the original that decide where values belong. For every service that differs from its plain translation in
// base, these are the fields in placed, and the pod metadata that overrides the service's annotations and labels.
func sparse(original, base object) object {
	services := object{}
	plain := entries(base)
	for name, value := range objectAt(original, "services") {
		service, _ := value.(object)
		if plain[name] == nil || equal(plain[name], service) {
			continue
		}
		kept := object{}
		for _, field := range placed {
			_, probe := service[field].(object)
			if probe = probe && strings.HasSuffix(field, "Probe"); probe || !blank(service[field]) {
				kept[field] = service[field]
			}
		}
		if secretTwice(service) {
			delete(kept, "envFromSecret")
		}
		if overriding := overridingMetadata(service); len(overriding) > 0 {
			kept["extraPodMetadata"] = overriding
		}
		if len(kept) > 0 {
			services[name] = kept
		}
	}
	if len(services) == 0 {
		return object{}
	}
	return object{"services": services}
}

// secretTwice reports whether the main container of a service refers to the service's secret as well. After an edit, the name then does not
// identify which of the two references is the service's.
func secretTwice(service object) bool {
	secret := textAt(service, "envFromSecret")
	own := listAt(objectAt(objectAt(service, "extraPodSpec"), "mainContainer"), "envFrom")
	return secret != "" && slices.ContainsFunc(own, func(source any) bool { return secretOf(source) == secret })
}

func blank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return value == ""
}

// overridingMetadata returns the part of extraPodMetadata that overrides annotations and labels of the service.
func overridingMetadata(service object) object {
	out := object{}
	for _, field := range []string{"annotations", "labels"} {
		for key, value := range objectAt(objectAt(service, "extraPodMetadata"), field) {
			if _, hidden := objectAt(service, field)[key]; hidden {
				ensure(out, field)[key] = value
			}
		}
	}
	return out
}

// addition adds an operation to tree, in the sparse form of the Dynamo operator, if it sets a complete field of the spec, or of a service
// or component. It returns false otherwise.
func addition(tree object, o *op) bool {
	if o.was != "" || o.gone || o.order != nil {
		return false
	}
	switch {
	case len(o.path) == 1 && o.path[0] != "services" && o.path[0] != "components" && o.path[0] != memoryKey:
		tree[o.path[0]] = o.value
		return true
	case len(o.path) == 3 && o.path[0] == "services" && !placedField(o.path[2]):
		ensure(ensure(tree, "services"), o.path[1])[o.path[2]] = o.value
		return true
	case len(o.path) == 3 && o.path[0] == "components":
		list := listAt(tree, "components")
		i := indexOf(list, o.path[1])
		if i < 0 {
			i, list = len(list), append(list, object{"name": o.path[1]})
			tree["components"] = list
		}
		list[i].(object)[o.path[2]] = o.value
		return true
	}
	return false
}

func placedField(field string) bool {
	return field == "extraPodMetadata" || slices.Contains(placed, field)
}

// additions returns complete fields in sparse as operations, except those that only decide where values belong.
func additions(tree object) []op {
	var out []op
	for _, key := range sorted(tree) {
		if key != "services" && key != "components" {
			out = append(out, op{path: []string{key}, value: tree[key]})
		}
	}
	services := objectAt(tree, "services")
	for _, name := range sorted(services) {
		service := objectAt(services, name)
		for _, field := range sorted(service) {
			if !placedField(field) {
				out = append(out, op{path: []string{"services", name, field}, value: service[field]})
			}
		}
	}
	for _, element := range listAt(tree, "components") {
		c, _ := element.(object)
		for _, field := range sorted(c) {
			if name := textAt(c, "name"); field != "name" && name != "" {
				out = append(out, op{path: []string{"components", name, field}, value: c[field]})
			}
		}
	}
	return out
}

// whole returns the fields in placed of a v1alpha1 spec, so that a translation back to v1alpha1 uses the same fields; nil for a v1beta1
// spec.
func whole(spec object) object {
	if _, ok := spec["services"]; !ok {
		return nil
	}
	return sparse(spec, object{"services": emptied(objectAt(spec, "services"))})
}

func emptied(services object) object {
	out := object{}
	for name := range services {
		out[name] = object{}
	}
	return out
}
