// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/kueue"
	"github.com/trellis-k8s/trellis/hack/bench/ours"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// thousandPods measures a gang of a thousand pods, cold: both sides have the nodes, like their caches after the watch has listed them, and
// have built nothing from them. The note adds the time to read the Node objects.
func thousandPods(_ context.Context, s sizes, r *report) error {
	nodes := s.thousand.Nodes()
	ask := hall.Ask{Name: "large", Whole: hall.Cluster, Each: hall.Zone, Gangs: 1, Pods: s.thousandPods, GPUs: hall.GPUs}
	judge := func(answer hall.Answer) error { return hall.NewLedger(s.thousand, nil).Judge(ask, answer) }
	var ourNodes, peerNodes []time.Duration
	t, err := medians(s.repeats,
		func() (time.Duration, error) {
			start := time.Now()
			p := ours.New(nodes, nil)
			ourNodes = append(ourNodes, time.Since(start))
			graph := p.Graph(ask)
			start = time.Now()
			result := p.Plan(graph)
			took := time.Since(start)
			return took, judge(ours.AnswerOf(result))
		},
		func() (time.Duration, error) {
			request := kueue.NewRequest(ask)
			start := time.Now()
			cache, err := kueue.New(nodes, nil)
			if err != nil {
				return 0, err
			}
			peerNodes = append(peerNodes, time.Since(start))
			start = time.Now()
			snapshot, err := cache.Snapshot()
			if err != nil {
				return 0, err
			}
			found, why := snapshot.Find(request)
			if found == nil {
				return 0, errors.New(why)
			}
			took := time.Since(start)
			return took, judge(found.Answer())
		})
	if err != nil {
		return err
	}
	r.faster(fmt.Sprintf("%s-pod gang, %s nodes, cold tree", number(float64(s.thousandPods)), number(float64(s.thousand.Hosts))), "ms",
		millis(t[0]), millis(t[1]), kueue.Name, 10)
	ourNode, peerNode := middleOf(ourNodes), middleOf(peerNodes)
	r.note("The %s-pod gang from the Node objects on, taking them in included: %s ms, Kueue %s ms, ratio %s.", number(float64(s.thousandPods)),
		number(millis(ourNode+t[0])), number(millis(peerNode+t[1])), number(float64(peerNode+t[1])/float64(ourNode+t[0])))
	return nil
}

// manyGangs measures placement alone: one gang after another, each counted as used before the next.
func manyGangs(_ context.Context, s sizes, r *report) error {
	nodes := s.many.Nodes()
	asks := make([]hall.Ask, s.gangs)
	for i := range asks {
		asks[i] = hall.Ask{Name: fmt.Sprintf("gang-%d", i), Whole: hall.Cluster, Each: hall.Rack, Gangs: 1, Pods: 4, GPUs: 4}
	}
	t, err := medians(min(s.repeats, 3),
		func() (time.Duration, error) {
			p := ours.New(nodes, nil)
			graphs, results := make([]placement.Demand, len(asks)), make([]placement.Result, len(asks))
			for i, a := range asks {
				graphs[i] = p.Graph(a)
			}
			start := time.Now()
			for i := range graphs {
				results[i] = p.Plan(graphs[i])
			}
			took := time.Since(start)
			ledger := hall.NewLedger(s.many, nil)
			for i := range results {
				if err := ledger.Judge(asks[i], ours.AnswerOf(results[i])); err != nil {
					return 0, err
				}
			}
			return took, nil
		},
		func() (time.Duration, error) {
			cache, err := kueue.New(nodes, nil)
			if err != nil {
				return 0, err
			}
			snapshot, err := cache.Snapshot()
			if err != nil {
				return 0, err
			}
			requests, found := make([]kueue.Request, len(asks)), make([]*kueue.Assignment, len(asks))
			for i, a := range asks {
				requests[i] = kueue.NewRequest(a)
			}
			start := time.Now()
			for i := range requests {
				var why string
				if found[i], why = snapshot.Find(requests[i]); found[i] == nil {
					return 0, errors.New(why)
				}
				snapshot.Add(found[i])
			}
			took := time.Since(start)
			ledger := hall.NewLedger(s.many, nil)
			for i := range found {
				if err := ledger.Judge(asks[i], found[i].Answer()); err != nil {
					return 0, err
				}
			}
			return took, nil
		})
	if err != nil {
		return err
	}
	pods := float64(4 * len(asks))
	what := fmt.Sprintf("%d gangs of 4, %s nodes, %d racks, placement alone", len(asks), number(float64(s.many.Hosts)), s.many.Racks())
	r.floor(what, "pods/s", pods/t[0].Seconds(), pods/t[1].Seconds(), kueue.Name, 50_000)
	return nil
}

// refusal measures the refusal of a pod shape that was never requested before, on a cluster without a whole free host.
func refusal(_ context.Context, s sizes, r *report) error {
	nodes, full := s.full.Nodes(), s.full.Full(hall.Random(1))
	ask := gangOf8("refused")
	if hall.NewLedger(s.full, full).Holds(ask) {
		return errors.New("the cluster is not full")
	}
	var ourWords, peerWords string
	t, err := medians(s.repeats,
		func() (time.Duration, error) {
			p := ours.New(nodes, full)
			g := p.Graph(ask)
			start := time.Now()
			why := ours.Why(p.Plan(g))
			took := time.Since(start)
			if why == nil {
				return 0, errors.New("placed on a full cluster")
			}
			ourWords = why.Error()
			return took, nil
		},
		func() (time.Duration, error) {
			cache, err := kueue.New(nodes, full)
			if err != nil {
				return 0, err
			}
			snapshot, err := cache.Snapshot()
			if err != nil {
				return 0, err
			}
			request := kueue.NewRequest(ask)
			start := time.Now()
			found, why := snapshot.Find(request)
			took := time.Since(start)
			if found != nil {
				return 0, errors.New("placed on a full cluster by Kueue")
			}
			peerWords = why
			return took, nil
		})
	if err != nil {
		return err
	}
	r.ceiling(fmt.Sprintf("refusal with its explanation, %s full nodes", number(float64(s.full.Hosts))), "ms", millis(t[0]), millis(t[1]),
		kueue.Name, 5)
	r.note("The refusals: %q; Kueue: %q.", ourWords, peerWords)
	return nil
}
