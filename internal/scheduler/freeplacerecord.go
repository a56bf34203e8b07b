// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/repack"
)

// freedFor returns the hosts that moves free for a graph, as its record has them; nil for none.
func (f *placeFreer) freedFor(graph types.NamespacedName) *assignment.Freed {
	if !f.reserver.has(graph) || !f.reserver.current.byMoves() {
		return nil
	}
	r := f.reserver.current
	freed := &assignment.Freed{
		Hosts: r.nodes, Domain: r.domain, Until: r.until, Replicas: r.moves.Replicas, GPUs: r.moves.GPUs,
		Graphs: slices.SortedFunc(maps.Keys(r.movers), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }),
	}
	if f.batch != nil && f.batch.graph == graph {
		freed.MaxGPUs = f.batch.most
	}
	return freed
}

// resume continues the batch that an earlier leader has recorded for a graph. Of several batches only the one with the latest end continues.
// The priority and the levels of the graph are not known before it is planned.
func (f *placeFreer) resume(o gang.Observation) {
	now := f.state.clock.Now()
	if o.Record == nil || o.Record.Freed == nil || !now.Before(o.Record.Freed.Until) {
		return
	}
	freed, name := o.Record.Freed, client.ObjectKeyFromObject(o.DGD)
	if f.batch != nil && !f.batch.until.Before(freed.Until) {
		return
	}
	f.reserver.lift()
	f.reserver.current = &domainReservation{
		graph: name, priority: math.MaxInt32, created: o.DGD.CreationTimestamp.Time, domain: freed.Domain, nodes: freed.Hosts,
		until: freed.Until, moves: repack.Cost{Replicas: freed.Replicas, GPUs: freed.GPUs}, movers: map[types.NamespacedName]bool{},
	}
	for _, graph := range freed.Graphs {
		f.reserver.current.movers[graph] = true
	}
	f.reserver.restore()
	domainReserved.Set(1)
	f.batch = &moveBatch{graph: name, until: freed.Until, most: freed.MaxGPUs, moves: 1, resumed: now}
}
