// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// Cost of selectors. CEL measures this cost in units of about 100 ns. Kubernetes lets one evaluation of a selector for one device cost
// resourcev1.CELSelectorExpressionMaxCost, a tenth of a second. While a plan evaluates selectors, no other graph is planned. The plan's
// budget is therefore charged the maximum cost of each evaluation. In addition, the different selectors of a namespace are counted only as
// long as their total cost does not exceed the maximum cost of one selector.

const (
	// perUnit is the number of a plan's comparisons that correspond to one unit of CEL cost.
	perUnit = 2
	// Compiled is the number of compiled selectors that an allocator caches. A compiled selector takes some 100 KiB.
	Compiled = 256
	// compiling is the cost of compiling a selector, in comparisons.
	compiling = 100_000
	// maxSelectors is the maximum total cost of the selectors in a namespace that are counted.
	maxSelectors = resourcev1.CELSelectorExpressionMaxCost
)

// selectors are the different selectors in a namespace's templates and unallocated claims.
type selectors struct {
	// uses counts the objects with each selector.
	uses map[string]int
	// beyond are the most expensive selectors, which are not counted; nil: must be computed again.
	beyond map[string]bool
}

// expressionsOf lists the selectors of a claim, without the selectors of its device classes.
func expressionsOf(spec *resourcev1.ResourceClaimSpec) (list []string) {
	for i := range spec.Devices.Requests {
		for _, r := range alternatives(&spec.Devices.Requests[i]) {
			list = appendExpressions(list, r.selectors)
		}
	}
	return list
}

func appendExpressions(list []string, of []resourcev1.DeviceSelector) []string {
	for i := range of {
		if of[i].CEL != nil {
			list = append(list, of[i].CEL.Expression)
		}
	}
	return list
}

func (s *Store) useTemplate(t *resourcev1.ResourceClaimTemplate, n int) {
	if t != nil {
		s.use(t.Namespace, &t.Spec.Spec, n)
	}
}

func (s *Store) useClaim(c *resourcev1.ResourceClaim, n int) {
	if c != nil && c.Status.Allocation == nil {
		s.use(c.Namespace, &c.Spec, n)
	}
}

// use counts the selectors of an object in its namespace (n = 1), or removes them (n = -1).
func (s *Store) use(namespace string, spec *resourcev1.ResourceClaimSpec, n int) {
	for _, e := range expressionsOf(spec) {
		of := s.selectors[namespace]
		if of == nil {
			of = &selectors{uses: map[string]int{}}
			s.selectors[namespace] = of
		}
		had := of.uses[e]
		if of.uses[e] += n; of.uses[e] <= 0 {
			delete(of.uses, e)
		}
		if had == 0 || of.uses[e] == 0 {
			s.different += n
			of.beyond = nil
		}
		if len(of.uses) == 0 {
			delete(s.selectors, namespace)
		}
	}
}

// tooDear returns the reason why selectors of a claim are not counted: the selectors of its namespace are too expensive together. It
// returns "" if the claim's selectors are counted. The cheaper selectors of the namespace are always counted.
func (s *Store) tooDear(c *claim) string {
	of := s.selectors[c.name.Namespace]
	if of == nil || c.object == nil {
		return ""
	}
	if of.beyond == nil {
		of.beyond = s.dearest(of)
	}
	if len(of.beyond) == 0 || !slices.ContainsFunc(expressionsOf(&c.object.Spec), func(e string) bool { return of.beyond[e] }) {
		return ""
	}
	return fmt.Sprintf("the selectors of %s, with cheaper ones of namespace %s, may cost more than %d for a device",
		c.name.Name, c.name.Namespace, maxSelectors)
}

// dearest returns the most expensive selectors of a namespace. Without them, the total cost stays within maxSelectors.
func (s *Store) dearest(of *selectors) map[string]bool {
	type priced struct {
		expression string
		cost       uint64
	}
	list := make([]priced, 0, len(of.uses))
	for e := range of.uses {
		list = append(list, priced{e, s.Allocator.Cost(e)})
	}
	slices.SortFunc(list, func(a, b priced) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.expression, b.expression))
	})
	beyond, left := map[string]bool{}, uint64(maxSelectors)
	for _, one := range list {
		if one.cost > left {
			left = 0
			beyond[one.expression] = true
			continue
		}
		left -= one.cost
	}
	return beyond
}

// evaluating returns the maximum cost of evaluating the selectors of claims for a number of devices, in comparisons.
func (s *Store) evaluating(list []*resourcev1.ResourceClaim, devices int) int {
	units, count := uint64(0), 0
	for _, c := range list {
		for i := range c.Spec.Devices.Requests {
			for _, r := range alternatives(&c.Spec.Devices.Requests[i]) {
				expressions := appendExpressions(nil, r.selectors)
				if class := s.classes[r.class]; class != nil {
					expressions = appendExpressions(expressions, class.Spec.Selectors)
				}
				for _, e := range expressions {
					units += min(s.Allocator.Cost(e), maxSelectors)
				}
				count += len(expressions)
			}
		}
	}
	work := int(min(units*perUnit*uint64(devices), lateWork)) // the time limit of one allocation is a second
	if s.different+len(s.classes) > Compiled {
		work += count * compiling
	}
	return work
}
