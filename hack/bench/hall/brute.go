// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hall

// Packable reports, by exhaustive search, whether several asks of one gang each fit together in one domain of a level. It is for a few
// hosts and pods only.
func (l *Ledger) Packable(level Level, asks []Ask) bool {
	b := brute{ledger: l, level: level, asks: asks, free: append([]int(nil), l.free...)}
	return b.gang(0, domain{})
}

// brute is one exhaustive search.
type brute struct {
	ledger *Ledger
	level  Level
	asks   []Ask
	free   []int
}

// gang places the i-th gang and all after it; whole is the domain that the previous gangs use.
func (b *brute) gang(i int, whole domain) bool {
	return i == len(b.asks) || b.pod(i, b.asks[i].Pods, 0, whole, domain{})
}

// pod places the remaining pods of a gang on hosts beginning with from: the pods are equal, so their order does not matter.
func (b *brute) pod(i, pods, from int, whole, each domain) bool {
	if pods == 0 {
		return b.gang(i+1, whole)
	}
	a := b.asks[i]
	for h := from; h < len(b.free); h++ {
		path, w, e := b.ledger.shape.path(h), whole, each
		if b.free[h] < a.GPUs || w.join(path, b.level) != nil || e.join(path, a.Each) != nil {
			continue
		}
		b.free[h] -= a.GPUs
		found := b.pod(i, pods-1, h, w, e)
		b.free[h] += a.GPUs
		if found {
			return true
		}
	}
	return false
}
