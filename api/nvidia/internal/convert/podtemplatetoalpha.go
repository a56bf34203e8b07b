// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"slices"
)

// placed are the fields of a service whose values could also be in extraPodSpec or extraPodMetadata. The sparse part of a [memory] keeps
// the full values of these fields.
var placed = []string{"annotations", "labels", "resources", "envs", "envFromSecret", "livenessProbe", "readinessProbe", "volumeMounts",
	"frontendSidecar"}

// placePod splits the podTemplate of component c into fields of service s. It puts values into extraPodSpec and extraPodMetadata, except
// for values that sparse, the service in the memory, has in other fields, and for values that placeFresh moves if fresh is set. All values
// come from the podTemplate, so a removed value is in no field. sharedEnvs are the graph's environment variables; a variable of the
// component overrides them only if it is in envs.
func placePod(s, c, sparse object, sharedEnvs []any, fresh bool) {
	template := objectAt(c, "podTemplate")
	spec, hasSpec := template["spec"].(object)
	p := &placer{service: s, sparse: sparse, spec: ownSpec(spec), main: object{}}
	p.takeMain()
	cache := objectAt(c, "compilationCache")
	if fresh {
		p.placeFresh(cache)
	} else {
		p.mounts(cache)
	}
	p.resources()
	p.env(sharedEnvs)
	p.secret()
	for _, probe := range []string{"livenessProbe", "readinessProbe"} {
		p.probe(probe)
	}
	p.sidecar(textAt(c, "frontendSidecar"))
	p.metadata(objectAt(template, "metadata"))
	if hasSpec {
		p.finish()
	}
}

type placer struct {
	service, sparse, spec, main object
	// hasMain: the template has a main container. claimed: a part of the main container was moved to another field, from which merging
	// makes the main container again. sidecarClaimed: the sidecar was moved to frontendSidecar, from which merging makes the sidecar again,
	// but no main container.
	hasMain, claimed, sidecarClaimed bool
}

// takeMain separates the main container from the user's other containers.
func (p *placer) takeMain() {
	containers := listAt(p.spec, "containers")
	i := indexOf(containers, mainContainer)
	if i < 0 {
		return
	}
	p.hasMain = true
	users, _ := containers[i].(object)
	p.main = ownContainer(users)
	delete(p.main, "name")
	p.replace(p.spec, "containers", slices.Delete(containers, i, i+1))
}

// replace sets a list, or drops it if it is empty.
func (p *placer) replace(o object, key string, list []any) {
	o[key] = list
	if len(list) == 0 {
		delete(o, key)
	}
}

func (p *placer) finish() {
	if p.hasMain && (len(p.main) > 0 || !p.claimed) {
		p.spec["mainContainer"] = p.main
	}
	if len(p.spec) > 0 || !p.claimed && !p.sidecarClaimed {
		p.service["extraPodSpec"] = p.spec
	}
}

func (p *placer) resources() {
	live, remembered := objectAt(p.main, "resources"), objectAt(p.sparse, "resources")
	for _, kind := range resourceKinds {
		amounts, item := objectAt(live, kind), objectAt(remembered, kind)
		for _, a := range slices.Backward(amountsOf(item)) {
			if amount, ok := amountText(amounts[a.name]); ok {
				p.placeAmount(kind, item, a, amount)
				p.take(amounts, a.name)
			}
		}
		p.dropEmpty(live, kind, len(item) > 0)
	}
	p.claims(live, listAt(remembered, "claims"))
	p.dropEmpty(p.main, "resources", len(remembered) > 0)
}

// claims moves the claims that the memory lists for the service from the main container back to the service. It starts with the last claim,
// because merging appends the service's claims.
func (p *placer) claims(live object, remembered []any) {
	claims := listAt(live, "claims")
	var own []any
	for _, claim := range slices.Backward(remembered) {
		if i := lastClaim(claims, claim, remembered); i >= 0 {
			own = append(own, claims[i])
			claims = slices.Delete(claims, i, i+1)
		}
	}
	if len(own) == 0 {
		return
	}
	slices.Reverse(own)
	ensure(p.service, "resources")["claims"] = own
	p.claimed = true
	p.replace(live, "claims", claims)
}

// lastClaim returns the index of a claim of the memory in claims or, if the claim's request was edited, the index of the last claim of its
// name that is not in the memory; -1 for none.
func lastClaim(claims []any, claim any, remembered []any) int {
	edited := -1
	for i, c := range slices.Backward(claims) {
		if equal(c, claim) {
			return i
		}
		sameName := nameOf(c) != "" && nameOf(c) == nameOf(claim)
		if edited < 0 && sameName && !slices.ContainsFunc(remembered, func(r any) bool { return equal(r, c) }) {
			edited = i
		}
	}
	return edited
}

func (p *placer) placeAmount(kind string, item object, a amount, text string) {
	into := ensure(ensure(p.service, "resources"), kind)
	if a.field == "" {
		into = ensure(into, "custom")
		into[a.name] = text
		return
	}
	if a.field == "gpu" {
		copyKeys(into, item, "gpuType")
	}
	into[a.field] = text
}

// amountText returns an amount as v1alpha1 writes it; false if amountsOf would not read it back.
func amountText(value any) (string, bool) {
	var text string
	switch a := value.(type) {
	case string:
		text = a
	case json.Number:
		text = a.String()
	}
	return text, isAmount(text)
}

func (p *placer) take(o object, key string) {
	delete(o, key)
	p.claimed = true
}

func (p *placer) dropEmpty(o object, key string, remembered bool) {
	if child, ok := o[key].(object); ok && len(child) == 0 && remembered && p.claimed {
		delete(o, key)
	}
}

func (p *placer) env(shared []any) {
	for _, element := range listAt(p.sparse, "envs") {
		remembered, _ := element.(object)
		p.takeEnv(textAt(remembered, "name"))
	}
	for _, element := range shared {
		variable, _ := element.(object)
		p.takeEnv(textAt(variable, "name"))
	}
}

func (p *placer) takeEnv(name string) {
	live := listAt(p.main, "env")
	for i := indexOf(live, name); i >= 0; i = indexOf(live, name) {
		p.service["envs"] = append(listAt(p.service, "envs"), live[i])
		live = slices.Delete(live, i, i+1)
		p.claimed = true
		p.replace(p.main, "env", live)
	}
}

// secret moves the Secret that the memory has in envFromSecret from envFrom back to this field. If envFrom lacks this Secret, because its
// name was changed, secret moves the last source if this is a Secret.
func (p *placer) secret() {
	remembered := textAt(p.sparse, "envFromSecret")
	live := listAt(p.main, "envFrom")
	if remembered == "" || len(live) == 0 {
		return
	}
	last := len(live) - 1
	for i := last; i >= 0; i-- {
		if secretOf(live[i]) == remembered {
			last = i
			break
		}
	}
	if name := secretOf(live[last]); name != "" {
		p.service["envFromSecret"] = name
		p.claimed = true
		p.replace(p.main, "envFrom", slices.Delete(live, last, last+1))
	}
}

// secretOf returns the name of the Secret if a source consists only of a reference to a Secret, otherwise "".
func secretOf(source any) string {
	o, _ := source.(object)
	name := textAt(objectAt(o, "secretRef"), "name")
	if !equal(source, secretRef(name)) {
		return ""
	}
	return name
}

func (p *placer) probe(field string) {
	if _, remembered := p.sparse[field].(object); !remembered {
		return
	}
	if live, ok := p.main[field].(object); ok {
		p.service[field] = live
		p.take(p.main, field)
	}
}

// sidecar moves the sidecar container to frontendSidecar, if the memory has a frontendSidecar and v1alpha1 can express the container.
func (p *placer) sidecar(name string) {
	if _, remembered := p.sparse["frontendSidecar"].(object); !remembered || name != frontendSidecar {
		return
	}
	containers := listAt(p.spec, "containers")
	i := indexOf(containers, frontendSidecar)
	if i < 0 {
		return
	}
	container := containers[i].(object)
	if !onlyKeys(container, "name", "image", "args", "env", "envFrom") || textAt(container, "image") == "" {
		return
	}
	out := object{}
	copyKeys(out, container, "image", "args")
	if env := container["env"]; env != nil {
		out["envs"] = env
	}
	if sources, ok := container["envFrom"]; ok {
		list, _ := sources.([]any)
		if len(list) != 1 || secretOf(list[0]) == "" {
			return
		}
		out["envFromSecret"] = secretOf(list[0])
	}
	p.service["frontendSidecar"] = out
	p.sidecarClaimed = true
	p.replace(p.spec, "containers", slices.Delete(containers, i, i+1))
}

// metadata puts the annotations and labels that the memory has in the service's own fields into these fields, and those of the pods alone
// into extraPodMetadata.
func (p *placer) metadata(meta object) {
	own := object{}
	for _, field := range []string{"annotations", "labels"} {
		live, ok := meta[field].(object)
		if !ok {
			continue
		}
		overridden := objectAt(objectAt(p.sparse, "extraPodMetadata"), field)
		remembered := objectAt(p.sparse, field)
		rest := object{}
		for key, value := range live {
			shared, isShared := remembered[key]
			_, isOverridden := overridden[key]
			switch {
			case !isShared:
				rest[key] = value
			case isOverridden:
				rest[key] = value
				ensure(p.service, field)[key] = shared
			default:
				ensure(p.service, field)[key] = value
			}
		}
		if len(rest) > 0 || len(remembered) == 0 {
			own[field] = rest
		}
	}
	if len(own) > 0 {
		p.service["extraPodMetadata"] = own
	}
}
