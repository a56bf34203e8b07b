// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// The cost of selectors. CEL counts it in units of about 100 ns. Kubernetes lets one evaluation of a selector cost
// resourcev1.CELSelectorExpressionMaxCost, which is a tenth of a second, for each device. While a plan evaluates selectors, no other
// graph is planned. So evaluations are on the plan's budget, by the most that they may cost. And of the different selectors of a
// namespace only so many are counted that together they cost as much as one may.

const (
	// perUnit is how many comparisons of a plan a unit of CEL's cost is worth.
	perUnit = 2
	// Compiled is how many selectors an allocator keeps compiled. One takes some 100 KiB.
	Compiled = 256
	// compiling is what compiling a selector costs, in comparisons.
	compiling = 100_000
	// maxSelectors bounds what the selectors of a namespace may cost that are counted.
	maxSelectors = resourcev1.CELSelectorExpressionMaxCost
)

// selectors are the different selectors of a namespace's templates, and of its claims without devices.
type selectors struct {
	// uses is how many objects have a selector.
	uses map[string]int
	// beyond are the most expensive ones, which are not counted; nil: to be read again.
	beyond map[string]bool
}

// expressionsOf lists the selectors that a claim has by itself, those of its classes left out.
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

// use counts the selectors of an object as those of its namespace, or no longer, with n of -1.
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

// tooDear reports that a claim has selectors which are not counted because those of its namespace cost too much together; "" for none. The
// cheaper ones of the namespace are counted.
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

// dearest are the most expensive selectors of a namespace, without which the others cost no more than is counted.
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

// evaluating is the most that evaluating the selectors of claims on some devices may cost, in comparisons.
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
	work := int(min(units*perUnit*uint64(devices), lateWork)) // one allocation is given a second
	if s.different+len(s.classes) > Compiled {
		work += count * compiling
	}
	return work
}
