// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"github.com/trellis-k8s/trellis/internal/gpus"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// kind describes the pods of one shape in the gang.
type kind struct {
	view *topology.View
	need int
	asks []topology.Request
	// gpu is the index of the request for GPUs; -1: none.
	gpu int
	// amounts has, for each entry, how much of each requested resource the entry's pod requests.
	amounts []int64
}

// entry is a pod of a mover on a node.
type entry struct{ mover, pod int32 }

// sortPods sorts the pods of the movers by their nodes.
func (f *finder) sortPods() {
	nodes := make([][]topology.NodeID, len(f.movers))
	most := 0
	for i, r := range f.movers {
		nodes[i] = make([]topology.NodeID, len(r.Pods))
		for k := range r.Pods {
			n, known := f.Cluster.Node(r.Pods[k].Node)
			if !known {
				n = -1
			}
			nodes[i][k] = n
			most = max(most, int(n))
		}
		f.gpus = append(f.gpus, r.GPUs())
		f.largest = max(f.largest, f.gpus[i])
	}
	f.first = make([]int32, most+2)
	for _, list := range nodes {
		for _, n := range list {
			if n >= 0 {
				f.first[n+1]++
			}
		}
	}
	for n := 1; n < len(f.first); n++ {
		f.first[n] += f.first[n-1]
	}
	f.entries = make([]entry, f.first[len(f.first)-1])
	at := append([]int32(nil), f.first...)
	for i, list := range nodes {
		for k, n := range list {
			if n >= 0 {
				f.entries[at[n]] = entry{int32(i), int32(k)}
				at[n]++
			}
		}
	}
	f.local = make([]int32, len(f.movers))
}

// on returns the range of the entries of a node.
func (f *finder) on(n topology.NodeID) (from, to int32) {
	if int(n)+1 >= len(f.first) {
		return 0, 0
	}
	return f.first[n], f.first[n+1]
}

// addKinds counts the pods of the gang by shape.
func (f *finder) addKinds(g *placement.Group) {
	for i := range g.Pods {
		view := f.tree.View(g.Pods[i].Shape)
		known := false
		for k := range f.kinds {
			if f.kinds[k].view == view {
				f.kinds[k].need++
				known = true
			}
		}
		if !known {
			f.kinds = append(f.kinds, f.kindOf(view))
		}
	}
	for _, sub := range g.Groups {
		f.addKinds(sub)
	}
}

func (f *finder) kindOf(view *topology.View) kind {
	k := kind{view: view, need: 1, asks: view.Shape().Requests(), gpu: -1}
	for i, ask := range k.asks {
		if gpus.IsGPU(ask.Name) {
			k.gpu = i
		}
	}
	k.amounts = make([]int64, 0, len(f.entries)*len(k.asks))
	for _, e := range f.entries {
		requests := f.movers[e.mover].Pods[e.pod].Requests
		for _, ask := range k.asks {
			k.amounts = append(k.amounts, amountOf(requests, ask.Name))
		}
	}
	return k
}
