// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Devices contains the resource claims and claim templates that pods name, and their DeviceClasses, each by name. An object without an
// entry does not exist or could not be read.
type Devices struct {
	Templates, Claims map[string]*resourcev1.ResourceClaimSpec
	Classes           map[string]*resourcev1.DeviceClass
}

// used identifies a request in a claim.
type used struct{ claim, request string }

// claimed returns the number of GPUs in the template claims that containers of one pod use. It adds the GPUs in named claims directly to
// t.total, because a named claim counts only once for all pods.
func (t *tally) claimed(spec *corev1.PodSpec, containers []*corev1.Container) (int64, error) {
	entries := map[string]*corev1.PodResourceClaim{}
	for i := range spec.ResourceClaims {
		entries[spec.ResourceClaims[i].Name] = &spec.ResourceClaims[i]
	}
	var own, shared int64
	counted := map[used]bool{}
	for _, c := range containers {
		for _, claim := range c.Resources.Claims {
			entry := entries[claim.Name]
			if entry == nil {
				return 0, fmt.Errorf("container %s uses the claim %s, which its pod does not have", c.Name, claim.Name)
			}
			n, err := t.countClaim(entry, claim.Request, counted)
			if err != nil {
				return 0, fmt.Errorf("claim %s: %w", claim.Name, err)
			}
			if entry.ResourceClaimName != nil {
				shared += n
			} else {
				own += n
			}
		}
	}
	t.total += shared // counts once for any number of pods
	return own, nil
}

// countClaim returns the number of GPUs in the requests of a claim that were not counted before. If request is set, it counts only the
// request with this name.
func (t *tally) countClaim(entry *corev1.PodResourceClaim, request string, counted map[used]bool) (int64, error) {
	spec, name := t.devices.claimOf(entry)
	if spec == nil {
		return 0, fmt.Errorf("%s does not exist", name)
	}
	request, _, _ = strings.Cut(request, "/") // the rest names an alternative of firstAvailable
	claim := entry.Name                       // a pod may have several claims of one template
	if entry.ResourceClaimName != nil {
		claim = *entry.ResourceClaimName
		if t.shared == nil {
			t.shared = map[used]bool{}
		}
		counted = t.shared
	}
	var total int64
	found := false
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if request != "" && r.Name != request {
			continue
		}
		found = true
		key := used{claim, r.Name}
		if counted[key] {
			continue
		}
		counted[key] = true
		n, err := t.devices.gpusOf(r)
		if err != nil {
			return 0, fmt.Errorf("request %s: %w", r.Name, err)
		}
		total += n
	}
	if !found {
		return 0, fmt.Errorf("%s has no request %q", name, request)
	}
	return total, nil
}

// claimOf returns the claim to which a pod's entry refers, nil if it is unknown, together with the claim's kind and name.
func (d Devices) claimOf(entry *corev1.PodResourceClaim) (*resourcev1.ResourceClaimSpec, string) {
	switch {
	case entry.ResourceClaimName != nil:
		return d.Claims[*entry.ResourceClaimName], "ResourceClaim " + *entry.ResourceClaimName
	case entry.ResourceClaimTemplateName != nil:
		return d.Templates[*entry.ResourceClaimTemplateName], "ResourceClaimTemplate " + *entry.ResourceClaimTemplateName
	}
	return nil, "the source of the claim"
}

// gpusOf returns the number of GPUs in a request. All alternatives of the request must have the same number.
func (d Devices) gpusOf(r *resourcev1.DeviceRequest) (int64, error) {
	if e := r.Exactly; e != nil {
		return d.gpusIn(e.DeviceClassName, e.AllocationMode, e.Count, e.Selectors)
	}
	var first int64
	for i := range r.FirstAvailable {
		s := &r.FirstAvailable[i]
		n, err := d.gpusIn(s.DeviceClassName, s.AllocationMode, s.Count, s.Selectors)
		if err != nil {
			return 0, err
		}
		if i > 0 && n != first {
			return 0, fmt.Errorf("its alternatives have %d and %d GPUs", first, n)
		}
		first = n
	}
	if len(r.FirstAvailable) == 0 {
		return 0, fmt.Errorf("requests no known device")
	}
	return first, nil
}

func (d Devices) gpusIn(class string, mode resourcev1.DeviceAllocationMode, count int64, selectors []resourcev1.DeviceSelector) (int64,
	error) {
	is, err := d.isGPU(class, selectors)
	switch {
	case err != nil:
		return 0, err
	case mode == resourcev1.DeviceAllocationModeAll:
		return 0, fmt.Errorf("requests all devices of a node, an unknown number")
	case !is:
		return 0, nil
	}
	return max(count, 1), nil
}

// pinned matches an expression that selects devices by their driver.
var pinned = regexp.MustCompile(`device\.driver\s*==\s*(?:"([^"]+)"|'([^']+)')|(?:"([^"]+)"|'([^']+)')\s*==\s*device\.driver`)

// isGPU reports whether the devices of a class are GPUs. It uses the driver that the class or the request selects, or otherwise the
// extended resource that the class serves. If there is neither, and there are no selectors, it uses the name of the class.
func (d Devices) isGPU(name string, selectors []resourcev1.DeviceSelector) (bool, error) {
	class := d.Classes[name]
	if class == nil {
		return false, fmt.Errorf("DeviceClass %s does not exist", name)
	}
	all := slices.Concat(class.Spec.Selectors, selectors)
	for _, s := range all {
		if s.CEL == nil || strings.Contains(s.CEL.Expression, "||") {
			continue
		}
		if found := pinned.FindStringSubmatch(s.CEL.Expression); found != nil {
			return isDriver(strings.Join(found[1:], "")), nil
		}
	}
	switch {
	case class.Spec.ExtendedResourceName != nil:
		return IsGPU(*class.Spec.ExtendedResourceName), nil
	case len(all) == 0 && isDriver(name):
		return true, nil
	}
	return false, fmt.Errorf("it is unknown whether the devices of DeviceClass %s are GPUs", name)
}

// isDriver reports whether the name of a driver, or of a class that is named after its driver, denotes GPUs. An example is gpu.nvidia.com.
func isDriver(name string) bool { return name == "gpu" || strings.HasPrefix(name, "gpu.") }

// Named lists the claim templates and claims that pods name.
func Named(pods []Pods) (templates, claims []string) {
	inTemplates, inClaims := map[string]bool{}, map[string]bool{}
	for _, p := range pods {
		for i := range p.Spec.ResourceClaims {
			if name := p.Spec.ResourceClaims[i].ResourceClaimTemplateName; name != nil {
				inTemplates[*name] = true
			}
			if name := p.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
				inClaims[*name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(inTemplates)), slices.Sorted(maps.Keys(inClaims))
}

// ClassesOf returns the names of the DeviceClasses in a claim.
func ClassesOf(spec *resourcev1.ResourceClaimSpec) []string {
	var out []string
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			out = append(out, r.Exactly.DeviceClassName)
		}
		for j := range r.FirstAvailable {
			out = append(out, r.FirstAvailable[j].DeviceClassName)
		}
	}
	return out
}
