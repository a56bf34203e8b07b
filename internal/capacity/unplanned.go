// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import "k8s.io/apimachinery/pkg/types"

// keepUnplanned keeps the capacity requests of deployments that were not planned since the operator started or since their pods changed. It
// keeps a request for at most Patience.
func (r *round) keepUnplanned(o Observation) {
	looked := map[string]bool{}
	for i := range o.Gangs {
		looked[o.Gangs[i].Ask()] = true
	}
	keep := func(ask string, graph types.UID) {
		if looked[ask] || !o.Unplanned[graph] || !r.now.Before(r.existing[ask].since.Add(Patience)) {
			return
		}
		r.wanted[ask], r.steps.Kept[graph] = true, true
		r.at(r.now.Add(Settle))
	}
	for _, one := range o.Placeholders {
		keep(one.Ask, one.Graph)
	}
	for _, one := range o.Requests {
		if keep(one.Ask, one.Graph); r.wanted[one.Ask] {
			r.pods += one.Pods
		}
	}
	for ask := range r.wanted {
		r.pods += len(r.existing[ask].names)
	}
}
