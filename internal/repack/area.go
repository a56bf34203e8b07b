// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"math"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// area is one domain with the replicas on its hosts, from which lower bounds are computed.
type area struct {
	// movers lists replicas by their index in finder.movers. The first "inside" replicas have pods in the domain. If the search includes
	// every set (finder.every), the other replicas follow.
	movers []int32
	inside int
	// spans has, for each mover with pods in the domain, the number of hosts in the domain on which these pods run.
	spans []int32
	kinds []areaKind
}

// areaKind describes the hosts of a domain for pods of one shape.
type areaKind struct {
	// base is the number of pods that fit on the domain's other hosts, on which moves make no space.
	base  int
	hosts []areaHost
	// left has, for each host, the unused amount of each requested resource. The slice takes has, host by host, the replicas that may leave
	// the host, by their index in area.movers. The slice gives has, for each element of takes, the amounts that the replica releases.
	left  []int64
	takes []int32
	gives []int64
}

// areaHost is a host in areaKind.hosts. The replicas areaKind.takes[from:to] may leave it. fit is the number of pods that fit on it now.
type areaHost struct {
	fit      int
	from, to int
}

// unlimited is the remaining amount of a resource that is not counted on a host.
const unlimited = math.MaxInt64 / 4

// least returns a lower bound of the number of GPUs that restart to make the gang fit in a domain; false if it cannot fit. It reads no
// hosts.
func (f *finder) least(d topology.DomainID) (gpus int64, possible bool) {
	for i := range f.kinds {
		k := &f.kinds[i]
		if k.view.Suiting(d) == 0 {
			return 0, false
		}
		if k.gpu < 0 || k.view.Fit(d) >= k.need {
			continue
		}
		gpus = max(gpus, k.asks[k.gpu].Amount*int64(k.need)-k.view.Free(d, k.gpu))
	}
	return max(gpus, 0), true
}

// build reads a domain into an area. If full is set, the area can be used for sets of replicas; otherwise only for the bound of the domain.
func (f *finder) build(a *area, d topology.DomainID, full bool) {
	a.movers, a.spans = a.movers[:0], a.spans[:0]
	for len(a.kinds) < len(f.kinds) {
		a.kinds = append(a.kinds, areaKind{})
	}
	f.tree.AllNodes(d, func(n topology.NodeID) bool {
		last := int32(-1)
		from, to := f.on(n)
		for _, e := range f.entries[from:to] {
			if e.mover != last {
				f.addSpan(a, e.mover)
			}
			last = e.mover
		}
		return true
	})
	a.inside = len(a.movers)
	if full {
		f.sortAlike(a)
	}
	for i := range f.kinds {
		f.buildKind(&a.kinds[i], &f.kinds[i], d)
	}
	for _, m := range a.movers {
		f.local[m] = 0
	}
	if full && f.every {
		f.addOutside(a)
	}
}

// addSpan counts one more host of a mover. finder.local has each mover's index in the area plus 1; 0 for movers that are not in the area.
func (f *finder) addSpan(a *area, mover int32) {
	if at := f.local[mover]; at > 0 {
		a.spans[at-1]++
		return
	}
	a.movers, a.spans = append(a.movers, mover), append(a.spans, 1)
	f.local[mover] = int32(len(a.movers))
}

// sortAlike sorts the movers of an area so that interchangeable replicas are adjacent.
func (f *finder) sortAlike(a *area) {
	spans := map[int32]int32{}
	for i, m := range a.movers {
		spans[m] = a.spans[i]
	}
	slices.SortFunc(a.movers, f.compare)
	for i, m := range a.movers {
		a.spans[i], f.local[m] = spans[m], int32(i+1)
	}
}

// addOutside adds the replicas without a pod in the domain. Their moves may free places for the replicas in the domain.
func (f *finder) addOutside(a *area) {
	for m := range f.movers {
		if !slices.Contains(a.movers[:a.inside], int32(m)) {
			a.movers = append(a.movers, int32(m))
		}
	}
	slices.SortFunc(a.movers[a.inside:], f.compare)
}

func (f *finder) buildKind(to *areaKind, k *kind, d topology.DomainID) {
	to.base, to.hosts, to.left, to.takes, to.gives = 0, to.hosts[:0], to.left[:0], to.takes[:0], to.gives[:0]
	f.tree.AllNodes(d, func(n topology.NodeID) bool {
		f.bounds.visits--
		from, end := f.on(n)
		fit := k.view.NodeFit(n)
		if from == end || fit == 0 && !f.freeable(k, n) {
			to.base += fit
			return true
		}
		for i := range k.asks {
			left, counts := k.view.Left(n, i)
			if !counts {
				left = unlimited
			}
			to.left = append(to.left, left)
		}
		host := areaHost{fit: fit, from: len(to.takes)}
		for e := from; e < end; e++ {
			l := f.local[f.entries[e].mover] - 1
			gives := k.amounts[int(e)*len(k.asks) : (int(e)+1)*len(k.asks)]
			if last := len(to.takes) - 1; last >= host.from && to.takes[last] == l {
				for i, amount := range gives {
					to.gives[last*len(k.asks)+i] += amount
				}
				continue
			}
			to.takes, to.gives = append(to.takes, l), append(to.gives, gives...)
		}
		host.to = len(to.takes)
		to.hosts = append(to.hosts, host)
		return true
	})
}

// freeable reports whether pods of a kind may fit on a host once replicas leave it, although no pod fits now.
func (f *finder) freeable(k *kind, n topology.NodeID) bool {
	why, _ := k.view.Why(n)
	switch why.Kind {
	case topology.KindResource, topology.KindHostPort, topology.KindOnePerHost, topology.KindRule:
		return true
	}
	return false
}
