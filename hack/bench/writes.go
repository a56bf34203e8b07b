// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// writes measures the number of writes for a graph of some gangs.
func writes(ctx context.Context, s sizes, r *report) (err error) {
	dir, err := os.MkdirTemp("", "trellis-bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := live.WritePolicy(dir); err != nil {
		return err
	}
	c, err := live.Up(ctx, s.live.few, true, live.Audited(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	c.Hasty = s.live.hasty
	g := s.graphs()
	var rounds [][]live.Write
	for range g.rounds {
		round, err := c.Writes(ctx, g.writeGangs, s.live.pods)
		if err != nil {
			return err
		}
		rounds = append(rounds, round)
	}
	r.writeRows(g.writeGangs, s.live.pods, rounds)
	return nil
}

// writeRows adds the row of all rounds, and remarks that break the writes down.
func (r *report) writeRows(gangs, pods int, rounds [][]live.Write) {
	var each []float64
	byResource, byUser, refused, ours, all := map[string]int{}, map[string]int{}, 0, 0, 0
	for _, round := range rounds {
		before := ours
		for _, w := range round {
			all++
			byUser[w.User]++
			if !w.ByOperator() {
				continue
			}
			ours++
			byResource[w.Verb+" "+w.Resource]++
			if w.Refused {
				refused++
			}
		}
		each = append(each, float64(ours-before)/float64(gangs*pods))
	}
	graphs := float64(len(rounds))
	n := graphs * float64(gangs*pods)
	name := fmt.Sprintf("the operator's writes for a graph of %d gangs of %d, per pod", gangs, pods)
	r.ceiling(name, "writes", float64(ours)/n, float64(all)/n, "everybody's", 2.75)
	r.note("Writes for a graph: %s by the operator (%s to %s a pod in %d rounds; %s of them refused), %s by everybody.",
		number(float64(ours)/graphs), number(slices.Min(each)), number(slices.Max(each)), len(rounds), number(float64(refused)/graphs),
		number(float64(all)/graphs))
	r.note("The operator's: %s.", shares(byResource, graphs))
	r.note("Everybody's: %s.", shares(byUser, graphs))
}

// shares lists counts by key, the largest first, each as the mean per graph.
func shares(counts map[string]int, graphs float64) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, key := range keys {
		keys[i] = key + " " + number(float64(counts[key])/graphs)
	}
	return strings.Join(keys, ", ")
}
