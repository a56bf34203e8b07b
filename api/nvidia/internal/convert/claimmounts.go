// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"slices"
)

// mounts moves the mounts that the memory has in volumeMounts, with their volumes, from the pod spec back to volumeMounts, and adds the
// compilation cache there. It moves no mounts if merging would restore them in another order. This happens if mounts that volumeMounts
// cannot express are between or after the moved mounts.
func (p *placer) mounts(cache object) {
	claimed := p.claimed
	live := object{"volumeMounts": p.main["volumeMounts"], "volumes": p.spec["volumes"]}
	ownLists(p.main, "volumeMounts") // claiming removes elements
	ownLists(p.spec, "volumes")
	p.claimMounts(cache)
	if p.mountsComeBack(live) {
		return
	}
	p.claimed = claimed
	delete(p.service, "volumeMounts")
	restore := func(into object, key string) {
		if into[key] = live[key]; live[key] == nil {
			delete(into, key)
		}
	}
	restore(p.main, "volumeMounts")
	restore(p.spec, "volumes")
	if textAt(cache, "pvcName") != "" {
		p.addCache(object{"useAsCompilationCache": true}, cache)
	}
}

// mountsComeBack reports whether merging the moved mounts restores the live lists.
func (p *placer) mountsComeBack(live object) bool {
	main, spec := object{}, object{}
	copyKeys(main, p.main, "volumeMounts")
	copyKeys(spec, p.spec, "volumes")
	mergeMounts(object{}, spec, main, listAt(p.service, "volumeMounts"))
	return sameList(main, live, "volumeMounts") && sameList(spec, live, "volumes")
}

func sameList(a, b object, key string) bool {
	x, y := listAt(a, key), listAt(b, key)
	return len(x) == len(y) && (len(x) == 0 || equal(x, y))
}

func (p *placer) claimMounts(cache object) {
	cached, wasCache := textAt(cache, "pvcName") == "", false
	var volumes []string
	for _, element := range listAt(p.sparse, "volumeMounts") {
		remembered, _ := element.(object)
		claim := textAt(remembered, "name")
		if !wasCache && claim != "" && trueAt(remembered, "useAsCompilationCache") {
			wasCache = true // the cache was never a mount, so without a cache nothing is claimed
			if !cached {
				p.addCache(remembered, cache)
				cached = true
			}
			continue
		}
		if path, ok := p.takeMount(claim, textAt(remembered, "mountPoint")); ok {
			mount := maps.Clone(remembered)
			mount["mountPoint"] = path
			if len(cache) == 0 {
				delete(mount, "useAsCompilationCache")
			}
			p.service["volumeMounts"] = append(listAt(p.service, "volumeMounts"), mount)
			volumes = append(volumes, volumeName(claim))
		}
	}
	for _, volume := range volumes {
		list := listAt(p.spec, "volumes")
		if i := indexOf(list, volume); i >= 0 {
			p.replace(p.spec, "volumes", slices.Delete(list, i, i+1))
		}
	}
	if !cached {
		p.addCache(object{"useAsCompilationCache": true}, cache)
	}
}

func (p *placer) addCache(remembered, cache object) {
	mount := maps.Clone(remembered)
	mount["name"] = cache["pvcName"]
	delete(mount, "mountPoint")
	if path := cache["mountPath"]; path != nil {
		mount["mountPoint"] = path
	}
	p.service["volumeMounts"] = append(listAt(p.service, "volumeMounts"), mount)
}

// takeMount removes a mount, with only a name and a path, of the volume that merging adds for a PersistentVolumeClaim. It prefers the mount
// at path, and returns the path of the removed mount; false if there is no such mount.
func (p *placer) takeMount(claim, path string) (string, bool) {
	volume := volumeName(claim)
	i := indexOf(listAt(p.spec, "volumes"), volume)
	if claim == "" || path == "" || i < 0 || !equal(listAt(p.spec, "volumes")[i], claimVolume(claim)) {
		return "", false
	}
	mounts := listAt(p.main, "volumeMounts")
	at := -1
	for i, element := range mounts {
		mount, _ := element.(object)
		if textAt(mount, "name") != volume || len(mount) != 2 || textAt(mount, "mountPath") == "" {
			continue
		}
		if at = i; textAt(mount, "mountPath") == path {
			break
		}
	}
	if at < 0 {
		return "", false
	}
	live := textAt(mounts[at].(object), "mountPath")
	p.claimed = true
	p.replace(p.main, "volumeMounts", slices.Delete(mounts, at, at+1))
	return live, true
}
