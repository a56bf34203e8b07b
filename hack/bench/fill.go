// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/kueue"
	"github.com/trellis-k8s/trellis/hack/bench/ours"
)

// placer places an ask as a unit, or returns why not.
type placer interface {
	Place(a hall.Ask) (hall.Answer, error)
}

// sequence draws more graphs than a hall can hold: single pods with a part of a host, and replicas over several hosts of a rack; a graph
// may have several replicas in one block.
func sequence(shape hall.Shape, random *rand.Rand) []hall.Ask {
	var asks []hall.Ask
	for left := shape.Hosts * hall.GPUs; left >= 0; {
		a := hall.Ask{Name: fmt.Sprintf("graph-%d", len(asks)), Whole: hall.Cluster, Each: hall.Rack, Gangs: 1, Pods: 1,
			GPUs: 1 << random.IntN(4)}
		if random.IntN(2) == 0 {
			a.Pods, a.GPUs = 2+random.IntN(3), 4<<random.IntN(2)
		}
		if random.IntN(4) == 0 {
			a.Gangs, a.Whole = 2+random.IntN(2), hall.Block
		}
		left -= a.Size()
		asks = append(asks, a)
	}
	return asks
}

// untilRefused counts the GPUs placed before the first refusal. A refusal despite free capacity also ends the count, because the row
// compares how far each side gets.
func untilRefused(shape hall.Shape, asks []hall.Ask, p placer) (int, error) {
	ledger, placed := hall.NewLedger(shape, nil), 0
	for _, a := range asks {
		answer, err := p.Place(a)
		if refused := hall.Refused(""); errors.As(err, &refused) {
			break
		}
		if err != nil {
			return 0, err
		}
		if err := ledger.Take(a, answer); err != nil {
			return 0, err
		}
		placed += a.Size()
	}
	return placed, nil
}

// fill measures how much of a hall each side fills with the same sequences.
func fill(_ context.Context, s sizes, r *report) error {
	var our, peer, worse int
	nodes := s.fill.Nodes()
	for seed := range s.sequences {
		asks := sequence(s.fill, hall.Random(uint64(seed)))
		a, err := untilRefused(s.fill, asks, ours.New(nodes, nil))
		if err != nil {
			return err
		}
		cache, err := kueue.New(nodes, nil)
		if err != nil {
			return err
		}
		snapshot, err := cache.Snapshot()
		if err != nil {
			return err
		}
		b, err := untilRefused(s.fill, asks, snapshot)
		if err != nil {
			return fmt.Errorf("kueue: %w", err)
		}
		our, peer = our+a, peer+b
		if a < b {
			worse++
		}
	}
	all := float64(s.sequences * s.fill.Hosts * hall.GPUs)
	name := fmt.Sprintf("GPUs before the first refusal, %d nodes", s.fill.Hosts)
	r.more(name, "GPUs", float64(our)/float64(s.sequences), float64(peer)/float64(s.sequences), kueue.Name, 1)
	r.floor(name+", share of all", "%", 100*float64(our)/all, 100*float64(peer)/all, kueue.Name, 97)
	r.note("Means of %d random sequences; Kueue came further than Trellis in %d of them.", s.sequences, worse)
	return nil
}
