// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// placeFresh moves values from the main container to the fields of the service that v1alpha1 users write, as the Dynamo operator does:
// environment variables, amounts of resources, probes, and mounts with only a name and a path. It moves only values that merging (addPod)
// restores unchanged and in the same order. A mount therefore also stays if a later mount stays.
//
//	main: {env: [A], resources: {limits: {nvidia.com/gpu: 8, rdma/ib: 1}}}  envs: [A], resources: {limits: {gpu: 8, custom: {rdma/ib: 1}}}
func (p *placer) placeFresh(cache object) {
	p.freshEnv()
	p.freshAmounts()
	p.freshClaims()
	p.freshProbes()
	p.freshMounts()
	if textAt(cache, "pvcName") != "" {
		p.addCache(object{"useAsCompilationCache": true}, cache)
	}
}

func (p *placer) freshEnv() {
	env := listAt(p.main, "env")
	if len(env) == 0 || slices.ContainsFunc(env, func(v any) bool { return nameOf(v) == "" }) {
		return
	}
	p.service["envs"] = slices.Clone(env)
	p.take(p.main, "env")
}

func (p *placer) freshAmounts() {
	live := objectAt(p.main, "resources")
	for _, kind := range resourceKinds {
		amounts := objectAt(live, kind)
		some := len(amounts) > 0
		for _, name := range sorted(amounts) {
			if text, ok := amountText(amounts[name]); ok && isResource(name) {
				p.placeAmount(kind, nil, amount{name: name, field: fieldOfAmount[name]}, text)
				p.take(amounts, name)
			}
		}
		p.dropEmpty(live, kind, some)
	}
}

// fieldOfAmount maps resources to their fields in v1alpha1; all other resources are in the field custom.
var fieldOfAmount = map[string]string{"cpu": "cpu", "memory": "memory", defaultGPU: "gpu"}

// isResource reports whether admission accepts a name as a resource. Amounts of other names stay in the main container.
func isResource(name string) bool {
	return fieldOfAmount[name] != "" || len(validation.IsQualifiedName(name)) == 0
}

func (p *placer) freshClaims() {
	live := objectAt(p.main, "resources")
	claims := listAt(live, "claims")
	for i, claim := range claims {
		if slices.ContainsFunc(claims[:i], func(c any) bool { return equal(c, claim) }) {
			return // merging drops one of two equal claims
		}
	}
	if len(claims) > 0 {
		ensure(p.service, "resources")["claims"] = slices.Clone(claims)
		p.take(live, "claims")
	}
	p.dropEmpty(p.main, "resources", p.service["resources"] != nil)
}

func (p *placer) freshProbes() {
	for _, field := range []string{"livenessProbe", "readinessProbe"} {
		if live, ok := p.main[field].(object); ok {
			p.service[field] = live
			p.take(p.main, field)
		}
	}
}

// freshMounts moves only mounts at the end of the list, because merging appends volumeMounts to the list. The volumes stay in the pod spec:
// a mount refers to its volume by name.
func (p *placer) freshMounts() {
	mounts := listAt(p.main, "volumeMounts")
	first, paths := len(mounts), map[string]bool{}
	for first > 0 && p.isPlainMount(mounts[first-1], paths) {
		first--
	}
	if slices.ContainsFunc(mounts[:first], func(m any) bool {
		o, _ := m.(object)
		return paths[textAt(o, "mountPath")]
	}) {
		return // merging drops the other mount of the same path
	}
	var moved []any
	for _, m := range mounts[first:] {
		mount := m.(object)
		moved = append(moved, object{"name": mount["name"], "mountPoint": mount["mountPath"]})
	}
	if len(moved) > 0 {
		p.service["volumeMounts"] = moved
		p.claimed = true
		p.replace(p.main, "volumeMounts", mounts[:first])
	}
}

// isPlainMount reports whether volumeMounts can express a mount: it has only a name and a path, its volume exists, and no
// later mount has the same path.
func (p *placer) isPlainMount(m any, paths map[string]bool) bool {
	mount, _ := m.(object)
	name, path := textAt(mount, "name"), textAt(mount, "mountPath")
	if len(mount) != 2 || name == "" || path == "" || paths[path] || volumeName(name) != name || indexOf(listAt(p.spec, "volumes"), name) < 0 {
		return false
	}
	paths[path] = true
	return true
}
