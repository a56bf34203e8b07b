// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// priced has the costs of selectors as a test wants them.
type priced struct {
	*allocator.Allocator
	costs map[string]uint64
}

// Cost implements claims.Allocator.
func (p priced) Cost(expression string) uint64 { return p.costs[expression] }

const (
	h100   = `device.attributes["gpu.example.com"].model == "h100"`
	b200   = `device.attributes["gpu.example.com"].model == "b200"`
	unique = `device.attributes["gpu.example.com"].uuid != ""`
)

// What a selector may cost is estimated as Kubernetes does: more for one that goes over attributes, and nothing for one that is not evaluated.
func TestCost(t *testing.T) {
	a := allocator.New()
	loop := `device.attributes.all(d, device.attributes[d].all(k, k != "x"))`
	if one, more := a.Cost(h100), a.Cost(loop); one == 0 || one > 1000 || more < 20*one || more > resourcev1.CELSelectorExpressionMaxCost {
		t.Errorf("%d for a comparison, %d for a loop", one, more)
	}
	if cost := a.Cost("device.nothing("); cost != 0 {
		t.Errorf("%d for one that does not compile", cost)
	}
}

// Of the selectors of a namespace those are counted that cost no more together than Kubernetes lets one cost, the cheaper ones first. When one of them is
// gone, the others may be counted.
func TestSelectorsOfANamespace(t *testing.T) {
	s := claims.NewStore(priced{allocator.New(), map[string]uint64{h100: 300_000, b200: 800_000, unique: 900_000}})
	elsewhere := template("unique", asks("gpu", 1, unique))
	elsewhere.Namespace = "other"
	cheap := template("h100", asks("gpu", 1, h100))
	for _, o := range []any{gpus(), slice("a-1", "h100"), cheap, template("b200", asks("gpu", 1, b200)), template("any", asks("gpu", 1)), elsewhere} {
		s.Set(o)
	}
	why := func(template string) string { return s.Uncounted(pods(1, "x", template)[0]) }
	const dear = "the selectors of b200, with cheaper ones of namespace ns, may cost more than 1000000 for a device"
	for name, want := range map[string]string{"h100": "", "any": "", "b200": dear} {
		if got := why(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	r := placement.PlanGraph(clusterOf(s), graphOf(none, pods(1, "x", "b200")...), placement.Options{}).Replicas[0]
	if r.Refusal != nil {
		t.Errorf("a pod whose claim is not counted is refused: %+v", r)
	}

	s.Set(claim("mine", asks("gpu", 1, h100))) // the same selector costs once
	s.Delete(cheap)
	if why("b200") == "" {
		t.Error("counted while a claim still has the other selector")
	}
	s.Set(has(claim("mine", asks("gpu", 1, h100)), "a-1", "gpu-0"))
	if got := why("b200"); got != "" {
		t.Errorf("alone: %q", got)
	}
	r = placement.PlanGraph(clusterOf(s), graphOf(none, pods(1, "x", "b200")...), placement.Options{}).Replicas[0]
	if r.Refusal == nil {
		t.Errorf("placed where there is no such device: %+v", r)
	}
}

// Evaluating selectors is on the plan's budget, by the most that they may cost.
func TestSelectorsAreOnTheBudget(t *testing.T) {
	asked := func(cost uint64, others int) int {
		s, c := hall(128)
		s.Allocator = priced{allocator.New(), map[string]uint64{unique: cost}}
		s.Set(template("eight", asks("gpu", 8, unique)))
		for i := range others {
			s.Set(template(fmt.Sprint("other-", i), asks("gpu", 1, fmt.Sprintf("%d == 1", i))))
		}
		before := s.Asked()
		c.Begin()
		defer c.Rollback()
		if r := placement.PlanGraph(c, graphOf(0, pods(16, "x", "eight")...), placement.Options{PlanBudget: 500_000}).Replicas[0]; r.Refusal != nil &&
			r.Refusal.Code != placement.CodeBudgetExhausted {
			t.Error(r.Refusal.Message())
		}
		return s.Asked() - before
	}
	cheap, dear, many := asked(1, 0), asked(5_000, 0), asked(1, claims.Compiled)
	if cheap < 100 || dear > 20 || many > 20 {
		t.Errorf("asked %d times for cheap selectors, %d times for dear ones, %d times where they are compiled again", cheap, dear, many)
	}
}
