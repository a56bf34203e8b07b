// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	mainContainer   = "main"
	frontendSidecar = "sidecar-frontend"
	defaultGPU      = "nvidia.com/gpu"
)

// addPod merges the pod fields of a service into one podTemplate. The base is extraPodSpec, its mainContainer and extraPodMetadata. addPod
// adds to this base:
//
//   - annotations and labels, overridden by extraPodMetadata's;
//   - resources, overriding mainContainer's key by key, with claims appended;
//   - envs, overriding mainContainer's by name. A variable of mainContainer that the graph's envs override is left out: it has no
//     effect;
//   - envFromSecret, appended;
//   - livenessProbe and readinessProbe, each in place of mainContainer's;
//   - volumeMounts, each with a volume unless there is one of its name, in place of a mount at the same path. The first compilation
//     cache becomes the component's compilationCache instead of a mount;
//   - frontendSidecar, a container.
func addPod(c, s object, sharedEnvs []any) {
	extra, hasSpec := s["extraPodSpec"].(object)
	spec := ownSpec(extra)
	users, hasMain := spec["mainContainer"].(object)
	delete(spec, "mainContainer")
	main := ownContainer(users)
	delete(main, "name")
	mergeEnv(main, sharedEnvs, listAt(s, "envs"))
	mergeResources(main, objectAt(s, "resources"))
	if secret := textAt(s, "envFromSecret"); secret != "" {
		main["envFrom"] = append(listAt(main, "envFrom"), secretRef(secret))
	}
	for _, probe := range []string{"livenessProbe", "readinessProbe"} {
		if p, ok := s[probe].(object); ok {
			main[probe] = p
		}
	}
	mergeMounts(c, spec, main, listAt(s, "volumeMounts"))
	addContainers(c, s, spec, main, hasMain)
	template := object{}
	if len(spec) > 0 || hasSpec {
		template["spec"] = spec
	}
	if meta := podMetadata(s); len(meta) > 0 {
		template["metadata"] = meta
	}
	if len(template) > 0 {
		c["podTemplate"] = template
	}
}

// addContainers puts main first, then the frontend sidecar, then the user's containers. It omits a user's container with one of these
// names, because names are unique in a pod.
func addContainers(c, s, spec, main object, hasMain bool) {
	var containers []any
	if hasMain || len(main) > 0 {
		main["name"] = mainContainer
		containers = append(containers, main)
	}
	sidecar, hasSidecar := s["frontendSidecar"].(object)
	if hasSidecar {
		c["frontendSidecar"] = frontendSidecar
		containers = append(containers, sidecarContainer(sidecar))
	}
	users, listed := spec["containers"].([]any)
	for _, element := range users {
		user, _ := element.(object)
		if name := textAt(user, "name"); name != mainContainer && (name != frontendSidecar || !hasSidecar) {
			containers = append(containers, element)
		}
	}
	delete(spec, "containers")
	switch {
	case containers != nil:
		spec["containers"] = containers
	case listed && len(users) == 0:
		spec["containers"] = []any{}
	}
}

func sidecarContainer(sidecar object) object {
	out := object{"name": frontendSidecar}
	copyKeys(out, sidecar, "image", "args")
	if envs := sidecar["envs"]; envs != nil {
		out["env"] = envs
	}
	if secret := textAt(sidecar, "envFromSecret"); secret != "" {
		out["envFrom"] = []any{secretRef(secret)}
	}
	return out
}

func secretRef(name string) object { return object{"secretRef": object{"name": name}} }

// podMetadata merges annotations and labels; extraPodMetadata overrides the service's annotations and labels.
func podMetadata(s object) object {
	out := object{}
	extra := objectAt(s, "extraPodMetadata")
	for _, field := range []string{"annotations", "labels"} {
		own, hasOwn := extra[field].(object)
		all := ownObject(objectAt(s, field))
		maps.Copy(all, own)
		if len(all) > 0 || hasOwn {
			out[field] = all
		}
	}
	return out
}

func mergeEnv(main object, shared, own []any) {
	env := slices.Clone(listAt(main, "env"))
	before := len(env)
	env = slices.DeleteFunc(env, func(e any) bool {
		o, _ := e.(object)
		name := textAt(o, "name")
		return indexOf(shared, name) >= 0 && indexOf(own, name) < 0
	})
	if len(env) == before && len(own) == 0 {
		return
	}
	merged := map[string]bool{}
	for _, element := range own {
		o, _ := element.(object)
		name := textAt(o, "name")
		if name == "" {
			continue
		}
		at := indexOf(env, name)
		if at < 0 || merged[name] { // the kubelet uses the last of two in one list; both stay
			env = append(env, element)
			merged[name] = true
			continue
		}
		merged[name] = true
		env[at] = element
		rest := slices.DeleteFunc(slices.Clone(env[at+1:]), func(e any) bool { return indexOf([]any{e}, name) == 0 })
		env = append(env[:at+1], rest...)
	}
	main["env"] = env
	if len(env) == 0 {
		delete(main, "env")
	}
}

// amount is an amount of a resource. field is its field in requests or limits; "" for a resource in the field custom.
type amount struct{ name, field, text string }

// amountsOf returns the amounts in item, the requests or limits, except for texts that are not quantities. A later amount overrides an
// earlier amount of the same name.
func amountsOf(item object) []amount {
	gpu := textAt(item, "gpuType")
	if gpu == "" {
		gpu = defaultGPU
	}
	all := []amount{{"cpu", "cpu", textAt(item, "cpu")}, {"memory", "memory", textAt(item, "memory")}, {gpu, "gpu", textAt(item, "gpu")}}
	custom := objectAt(item, "custom")
	for _, name := range sorted(custom) {
		all = append(all, amount{name, "", textAt(custom, name)})
	}
	return slices.DeleteFunc(all, func(a amount) bool { return !isAmount(a.text) })
}

var resourceKinds = []string{"requests", "limits"}

func mergeResources(main, resources object) {
	for _, kind := range resourceKinds {
		for _, a := range amountsOf(objectAt(resources, kind)) {
			ensure(ensure(main, "resources"), kind)[a.name] = a.text
		}
	}
	for _, claim := range listAt(resources, "claims") {
		into := ensure(main, "resources")
		list := listAt(into, "claims")
		if !slices.ContainsFunc(list, func(c any) bool { return equal(c, claim) }) {
			into["claims"] = append(list, claim)
		}
	}
}

func mergeMounts(c, spec, main object, mounts []any) {
	for _, element := range mounts {
		mount, _ := element.(object)
		claim, path := textAt(mount, "name"), textAt(mount, "mountPoint")
		if claim == "" {
			continue
		}
		if _, cached := c["compilationCache"]; trueAt(mount, "useAsCompilationCache") && !cached {
			cache := object{"pvcName": claim}
			copyKeys(cache, object{"mountPath": mount["mountPoint"]}, "mountPath")
			c["compilationCache"] = cache
			continue
		}
		if path == "" {
			continue
		}
		volume := volumeName(claim)
		if volumes := listAt(spec, "volumes"); indexOf(volumes, volume) < 0 {
			spec["volumes"] = append(volumes, claimVolume(claim))
		}
		list := slices.DeleteFunc(slices.Clone(listAt(main, "volumeMounts")), func(m any) bool {
			o, _ := m.(object)
			return textAt(o, "mountPath") == path
		})
		main["volumeMounts"] = append(list, object{"name": volume, "mountPath": path})
	}
}

func claimVolume(claim string) object {
	return object{"name": volumeName(claim), "persistentVolumeClaim": object{"claimName": claim}}
}

// volumeName returns the claim's name. If this is no DNS label, which a volume's name must be, volumeName returns a DNS label made from it
// and its hash.
func volumeName(claim string) string {
	if len(validation.IsDNS1123Label(claim)) == 0 {
		return claim
	}
	label := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, claim), "-")
	sum := sha256.Sum256([]byte(claim))
	suffix := hex.EncodeToString(sum[:4])
	keep := min(len(label), validation.DNS1123LabelMaxLength-len(suffix)-1)
	return strings.TrimRight(label[:keep], "-") + "-" + suffix
}
