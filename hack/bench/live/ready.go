// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"time"
)

// ReadyTimes are the times of many graphs created at once.
type ReadyTimes struct {
	// Pods is the time from the first create to the last pod Ready; Graphs is the time from then to the last graph Ready.
	Pods, Graphs time.Duration
}

// Ready creates all graphs at once and waits until all of them are Ready. Then it checks the pods' hosts, and deletes all objects.
func (c *Cluster) Ready(ctx context.Context, g Graphs) (ReadyTimes, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := c.followGraphs(ctx)
	if err != nil {
		return ReadyTimes{}, err
	}
	defer p.stop()
	start := time.Now()
	if err := c.untilReady(ctx, g, p, patience); err != nil {
		return ReadyTimes{}, err
	}
	return ReadyTimes{Pods: p.lastPod.Sub(start), Graphs: max(0, p.lastGraph.Sub(p.lastPod))}, c.clear(ctx, p.pods)
}

// untilReady creates all graphs, waits until all of them are Ready, and checks their pods' hosts.
func (c *Cluster) untilReady(ctx context.Context, g Graphs, p *readiness, patience time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	created := make(chan struct{})
	go func() {
		defer close(created)
		if err := c.create(ctx, g.objects()); err != nil {
			cancel(err)
		}
	}()
	err := p.until(ctx, g.Pods(), g.Count, patience)
	cancel(err)
	<-created
	if err != nil {
		return err
	}
	return g.judge(c.shape, p.pods)
}
