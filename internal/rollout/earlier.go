// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math/big"
	"slices"

	"github.com/trellis-k8s/trellis/internal/bools"
)

// served is the part of the graph that one generation serves.
type served struct {
	generation string
	part       part
}

// earlierOf returns the earlier generations that serve a part of the graph, sorted by this part, the largest first.
func earlierOf(components []Component) []served {
	var out []served
	for _, c := range components {
		for _, e := range c.Earlier {
			if slices.ContainsFunc(out, func(s served) bool { return s.generation == e.Generation }) {
				continue
			}
			if p := least(components, func(c Component) int { return c.available(e.Generation) }); !p.zero() {
				out = append(out, served{e.Generation, p})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b served) int { return bools.Compare(a.part.less(b.part), b.part.less(a.part)) })
	return out
}

// available returns the number of available replicas of an earlier generation.
func (c Component) available(generation string) int {
	for _, e := range c.Earlier {
		if e.Generation == generation {
			return e.Available
		}
	}
	return 0
}

// keeping distributes the kept replicas over the earlier generations. Replicas of different generations do not serve together: 1 prefill
// replica of one generation and 2 decode replicas of another generation serve nothing. So the generation that serves the largest part keeps
// its replicas first, as far as needed. The next generations follow, until all kept replicas together serve the part that must stay.
//
// The replicas of each generation are rounded up to whole replicas, so several generations need more replicas than one generation that
// serves the same part. A component keeps the additional replicas only if its surge has space for them and one new replica, because
// otherwise the update would not proceed. Without this space, the last generations serve less.
func keeping(components []Component, earlier []served, keep part, steps []Step) {
	left := big.NewRat(keep.n, keep.d)
	for _, generation := range earlier {
		if left.Sign() <= 0 {
			break
		}
		taken := big.NewRat(generation.part.n, generation.part.d)
		if taken.Cmp(left) > 0 {
			taken.Set(left)
		}
		left.Sub(left, taken)
		for i, c := range components {
			replicas := min(roundedUp(taken, c.Replicas), max(0, c.mostKept(steps[i].Keep)-sumOf(steps[i].Of)))
			steps[i].Of = append(steps[i].Of, Kept{generation.generation, replicas})
		}
	}
	for i := range steps {
		step := &steps[i]
		if len(step.Of) > 0 { // replicas that do not serve stay as long as nothing else serves
			step.Of[0].Replicas += max(0, step.Keep-sumOf(step.Of))
			step.Keep = sumOf(step.Of)
		}
	}
}

// mostKept returns the maximum number of replicas of earlier generations that the component keeps. alone is the number of replicas that the
// component would keep if there were only one earlier generation.
func (c Component) mostKept(alone int) int {
	return max(alone, c.Replicas+c.MaxSurge-c.NewAvailable-1)
}

func sumOf(kept []Kept) int {
	n := 0
	for _, k := range kept {
		n += k.Replicas
	}
	return n
}

// roundedUp returns the part p of a number of replicas, rounded up to a whole number.
func roundedUp(p *big.Rat, replicas int) int {
	all := new(big.Rat).Mul(p, big.NewRat(int64(replicas), 1))
	quotient, rest := new(big.Int).QuoRem(all.Num(), all.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		return int(quotient.Int64()) + 1
	}
	return int(quotient.Int64())
}
