// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// graphSizes are the sizes of the rows about whole graphs.
type graphSizes struct {
	// rounds of writes and of ready300.
	rounds int
	// writeGangs is the number of gangs of the graph whose writes are counted; each has as many pods as in bind.
	writeGangs int
	// small and large are the sizes of the gangs whose pods are compared.
	small, large int
	// ready are created at once; resident fill the cluster in which the operator's memory is measured.
	ready, resident live.Graphs
}

func (s sizes) graphs() graphSizes {
	if s.smoke {
		return graphSizes{
			rounds: 1, writeGangs: 2, small: 4, large: 12,
			ready:    live.Graphs{Count: 4, Workers: 4, Frontends: 1, GPUs: hall.GPUs},
			resident: live.Graphs{Count: 8, Workers: 4, Frontends: 2, GPUs: 1},
		}
	}
	return graphSizes{
		rounds: 3, writeGangs: 4, small: 8, large: 500,
		ready:    live.Graphs{Count: 300, Workers: 4, Frontends: 1, GPUs: hall.GPUs},
		resident: live.Graphs{Count: 1_000, Workers: 8, Frontends: 2, GPUs: 1},
	}
}

// ready measures many graphs created at once: the time from the last pod Ready to the last graph Ready.
func ready(ctx context.Context, c *live.Cluster, s sizes, r *report) error {
	g := s.graphs()
	warm := g.ready
	warm.Count = min(warm.Count, 30)
	if _, err := c.Ready(ctx, warm); err != nil {
		return err
	}
	var pods, graphs []time.Duration
	for range g.rounds {
		t, err := c.Ready(ctx, g.ready)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "  last pod after %s, last graph %s later\n", t.Pods.Round(10*time.Millisecond), t.Graphs.Round(time.Millisecond))
		pods, graphs = append(pods, t.Pods), append(graphs, t.Graphs)
	}
	r.readyRow(g.ready, s.live.few, pods, graphs)
	return nil
}

func (r *report) readyRow(g live.Graphs, shape hall.Shape, pods, graphs []time.Duration) {
	r.ceiling(fmt.Sprintf("%d graphs at once (%s pods, %s nodes), last pod Ready to last graph Ready",
		g.Count, number(float64(g.Pods())), number(float64(shape.Hosts))),
		"s", meanOf(graphs).Seconds(), meanOf(pods).Seconds(), "created to last pod Ready", 2)
	r.note("%d graphs at once: last graph Ready %s to %s s after the last pod, in %d rounds.",
		g.Count, number(slices.Min(graphs).Seconds()), number(slices.Max(graphs).Seconds()), len(graphs))
}

// opMemory measures the operator's peak resident memory in a full cluster, and after a restart.
func opMemory(ctx context.Context, c *live.Cluster, s sizes, r *report) error {
	g := s.graphs().resident
	resident, err := c.Resident(ctx, g)
	if err != nil {
		return err
	}
	r.residentRows(g, s.live.few, resident)
	return nil
}

func (r *report) residentRows(g live.Graphs, shape hall.Shape, resident live.Resident) {
	name := fmt.Sprintf("operator's peak resident, %s pods, %s nodes, %s graphs",
		number(float64(g.Pods())), number(float64(shape.Hosts)), number(float64(g.Count)))
	r.alone(name, "MB", resident.Working, 300)
	r.alone(name+", restarted", "MB", resident.Restarted, 300)
}
