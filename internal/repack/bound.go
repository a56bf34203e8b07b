// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"cmp"
	"math"
	"slices"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxSubsets is the largest number of replicas on a host for which every subset is examined.
const maxSubsets = 5

// offer describes what a host gains when replicas leave it. pods is an upper bound of the additional pods that fit. price is a lower bound
// of the GPUs that restart for each additional pod.
type offer struct {
	price float64
	pods  int
}

// rest returns a lower bound of the GPUs that have to restart in addition to the GPUs of the chosen replicas. "in" marks the chosen
// replicas; nil for none. Only replicas with an index of at least next may be added. rest returns false if the counts show that no addition
// suffices.
func (f *finder) rest(a *area, in []bool, next int32) (gpus int64, possible bool) {
	for i := range f.kinds {
		more, possible := f.restOf(a, &a.kinds[i], &f.kinds[i], in, next)
		if !possible {
			return 0, false
		}
		gpus = max(gpus, int64(math.Ceil(more-1e-6)))
	}
	return gpus, true
}

func (f *finder) restOf(a *area, on *areaKind, k *kind, in []bool, next int32) (float64, bool) {
	missing := k.need - on.base
	f.lefts, f.fits = append(f.lefts[:0], on.left...), f.fits[:0]
	for i := range on.hosts {
		h := &on.hosts[i]
		fit := h.fit
		if left := f.lefts[i*len(k.asks) : (i+1)*len(k.asks)]; give(on, h, left, in) {
			fit = k.fit(left)
		}
		f.fits = append(f.fits, fit)
		missing -= fit
	}
	f.bounds.visits -= len(on.hosts)
	if missing <= 0 {
		return 0, true
	}
	f.offers = f.offers[:0]
	for i := range on.hosts {
		if o := f.offerOf(a, on, k, i, missing, in, next); o.pods > 0 {
			f.offers = append(f.offers, o)
		}
	}
	slices.SortFunc(f.offers, func(a, b offer) int { return cmp.Compare(a.price, b.price) })
	sum := 0.0
	for _, o := range f.offers {
		pods := min(o.pods, missing)
		sum += o.price * float64(pods)
		if missing -= pods; missing == 0 {
			return sum, true
		}
	}
	return 0, false
}

// give adds to "left" the amounts that the chosen replicas on a host release, and reports whether the host has chosen replicas.
func give(on *areaKind, h *areaHost, left []int64, in []bool) (some bool) {
	if in == nil {
		return false
	}
	for t := h.from; t < h.to; t++ {
		if in[on.takes[t]] {
			some = true
			for i := range left {
				left[i] += on.gives[t*len(left)+i]
			}
		}
	}
	return some
}

// fit returns the number of pods that fit into the unused amounts of a host. It checks nothing but the requested amounts.
func (k *kind) fit(left []int64) int {
	fit := int64(k.need)
	for i := range k.asks {
		if amount := k.asks[i].Amount; amount > 0 {
			fit = min(fit, max(left[i], 0)/amount)
		}
	}
	return int(fit)
}

// offerOf returns the offer of a host when replicas that are not chosen yet leave it.
func (f *finder) offerOf(a *area, on *areaKind, k *kind, host, missing int, in []bool, next int32) offer {
	h, left := &on.hosts[host], f.lefts[host*len(k.asks):(host+1)*len(k.asks)]
	f.rests, f.shares = f.rests[:0], f.shares[:0]
	for t := h.from; t < h.to; t++ {
		if l := on.takes[t]; l >= next && (in == nil || !in[l]) {
			f.rests = append(f.rests, int32(t))
			// divide a replica's GPUs among its hosts, at most "missing" hosts
			f.shares = append(f.shares, float64(f.gpus[a.movers[l]])/float64(min(int(a.spans[l]), missing)))
		}
	}
	if len(f.rests) == 0 {
		return offer{}
	}
	if len(f.rests) <= maxSubsets {
		return f.bySubsets(on, k, left, f.fits[host], missing)
	}
	return f.byRates(on, k, left, f.fits[host], missing)
}

// bySubsets computes the offer of a host from every subset of the replicas on it.
func (f *finder) bySubsets(on *areaKind, k *kind, left []int64, fit, missing int) offer {
	best := offer{price: math.Inf(1)}
	for set := 1; set < 1<<len(f.rests); set++ {
		price, more := 0.0, math.MaxInt
		for j := range f.rests {
			if set&(1<<j) != 0 {
				price += f.shares[j]
			}
		}
		for i := range k.asks {
			amount := k.asks[i].Amount
			if amount <= 0 {
				continue
			}
			free := left[i]
			for j, t := range f.rests {
				if set&(1<<j) != 0 {
					free += on.gives[int(t)*len(k.asks)+i]
				}
			}
			more = min(more, int(max(free, 0)/amount))
		}
		if more = min(more-fit, missing); more > 0 {
			best.price, best.pods = min(best.price, price/float64(more)), max(best.pods, more)
		}
	}
	return best
}

// byRates computes a rougher offer of a host, as if fractions of replicas could leave it. For each resource, it uses the lowest price per
// unit that any replica has.
func (f *finder) byRates(on *areaKind, k *kind, left []int64, fit, missing int) offer {
	most := missing
	rates := make([]float64, len(k.asks))
	for i := range k.asks {
		amount, free := k.asks[i].Amount, left[i]
		if rates[i] = math.Inf(1); amount <= 0 {
			continue
		}
		for j, t := range f.rests {
			gives := on.gives[int(t)*len(k.asks)+i]
			if free += gives; gives > 0 {
				rates[i] = min(rates[i], f.shares[j]/float64(gives))
			}
		}
		most = min(most, int(max(free, 0)/amount)-fit)
	}
	best := offer{price: math.Inf(1), pods: max(most, 0)}
	for pods := 1; pods <= most; pods++ {
		price := 0.0
		for i := range k.asks {
			if short := k.asks[i].Amount*int64(fit+pods) - left[i]; short > 0 {
				price = max(price, float64(short)*rates[i])
			}
		}
		best.price = min(best.price, price/float64(pods))
	}
	return best
}

// roomy reports whether all hosts together have as many free GPUs as the gang requests. A move frees GPUs in total only if its replica
// requests less when placed again; roomy counts these GPUs as free.
func (f *finder) roomy() bool {
	for i := range f.kinds {
		k := &f.kinds[i]
		if k.gpu < 0 {
			continue
		}
		name, missing := k.asks[k.gpu].Name, k.asks[k.gpu].Amount*int64(k.need)
		f.tree.AllNodes(topology.Root, func(n topology.NodeID) bool {
			if left, counts := k.view.Left(n, k.gpu); !counts {
				missing = 0
			} else {
				missing -= max(left, 0)
			}
			return missing > 0
		})
		for j := 0; j < len(f.movers) && missing > 0; j++ {
			missing -= max(f.movers[j].requests(name)-requestsOf(f.movers[j].Group, name), 0)
		}
		if missing > 0 {
			return false
		}
	}
	return true
}

// requests returns the total amount of a resource that the pods of a replica request.
func (r *Replica) requests(name string) (n int64) {
	for i := range r.Pods {
		n += amountOf(r.Pods[i].Requests, name)
	}
	return n
}

// requestsOf returns the total amount of a resource that the pods of a group request.
func requestsOf(g *placement.Group, name string) (n int64) {
	for i := range g.Pods {
		n += amountOf(g.Pods[i].Shape.Requests(), name)
	}
	return n
}

func amountOf(requests []topology.Request, name string) int64 {
	for i := range requests {
		if requests[i].Name == name {
			return requests[i].Amount
		}
	}
	return 0
}
