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

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/repack"
)

// freedFor returns the hosts that moves free for a graph, as the graph's record stores them; nil for none.
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

// resume continues the batch that an earlier leader has recorded for a graph. If several graphs have a recorded batch, only the batch that
// ends last continues. The priority and levels of the graph are not known before it is planned, so the reservation has the highest priority
// and no levels. Other clients may be able to write the record. So resume ignores a record with more hosts than the graph's wanted pods,
// and limits the reservation's time.
func (f *placeFreer) resume(o gang.Observation) {
	now := f.state.clock.Now()
	if o.Record == nil || o.Record.Freed == nil || len(o.Record.Freed.Hosts) > wantedPods(o.Groups) {
		return
	}
	freed, name := o.Record.Freed, client.ObjectKeyFromObject(o.DGD)
	until := earlier(freed.Until, now.Add(f.reserver.lasts))
	if !now.Before(until) || f.batch != nil && !f.batch.until.Before(until) {
		return
	}
	movers := map[types.NamespacedName]bool{}
	for _, graph := range freed.Graphs {
		movers[graph] = true
	}
	f.reserver.replace(&domainReservation{
		graph: name, priority: math.MaxInt32, created: o.DGD.CreationTimestamp.Time, domain: freed.Domain, nodes: freed.Hosts,
		until: until, moves: repack.Cost{Replicas: freed.Replicas, GPUs: freed.GPUs}, movers: movers,
	})
	f.batch = &moveBatch{graph: name, until: until, most: freed.MaxGPUs, moves: 1, resumed: now}
}

// wantedPods returns the number of pods of all wanted replicas.
func wantedPods(of []*trellisv1alpha1.ScalingGroup) (n int) {
	for _, sg := range of {
		n += int(sg.Spec.Replicas) * int(render.PodsPerReplica(sg))
	}
	return n
}
