// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import "slices"

// mounts claims the mounts of volumes that volumeMounts had, with their volumes, and the compilation cache.
func (p *placer) mounts(cache object) {
	cached, wasCache := textAt(cache, "pvcName") == "", false
	var volumes []string
	for _, element := range listAt(p.sparse, "volumeMounts") {
		remembered, _ := element.(object)
		claim := textAt(remembered, "name")
		if !wasCache && claim != "" && trueAt(remembered, "useAsCompilationCache") {
			wasCache = true // it never was a mount, so it claims none if the cache is gone
			if !cached {
				p.addCache(remembered, cache)
				cached = true
			}
			continue
		}
		if path, ok := p.takeMount(claim, textAt(remembered, "mountPoint")); ok {
			mount := clone(remembered).(object)
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
	mount := clone(remembered).(object)
	mount["name"] = cache["pvcName"]
	delete(mount, "mountPoint")
	if path := cache["mountPath"]; path != nil {
		mount["mountPoint"] = path
	}
	p.service["volumeMounts"] = append(listAt(p.service, "volumeMounts"), mount)
}

// takeMount finds the plain mount of a claim's own volume, at the path if there is one, and returns its path.
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
