// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// asked is one kind of requests, and the duration of each request.
type asked struct {
	name      string
	questions []live.Question
	took      []time.Duration
}

// admission measures requests at a steady rate alongside an operator that places gangs; the kinds take turns.
func admission(ctx context.Context, c *live.Cluster, s sizes, r *report) error {
	o := s.operating
	requests, err := c.Requests(ctx)
	if err != nil {
		return err
	}
	reviews, conversion, err := c.Reviews(ctx, requests)
	if err != nil {
		return err
	}
	kinds := []*asked{
		{name: "admission: dry-run creates in both versions", questions: []live.Question{requests.CreateAlpha, requests.CreateBeta}},
		{name: "conversion: reads in the version that is not stored", questions: []live.Question{requests.GetAlpha}},
		{name: "admission: the operator's part of it", questions: reviews},
		{name: "conversion: the operator's part of it", questions: []live.Question{conversion}},
		{name: "dry-run creates of a ConfigMap", questions: []live.Question{requests.CreateConfigMap}},
	}
	start := time.Now()
	gangs, err := c.Work(ctx, o.gangEvery, s.live.pods, func(ctx context.Context) error {
		for round := range o.phases {
			for _, i := range order(len(kinds), round) {
				if err := kinds[i].ask(ctx, o); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	floor := kinds[len(kinds)-1]
	for _, kind := range kinds[:len(kinds)-1] {
		one := row{Name: fmt.Sprintf("%s, %d/s, p99", kind.name, o.perSecond), Unit: "ms", Ours: millis(quantile(kind.took, 0.99)), Target: 20}
		one.Peer, one.PeerName = millis(quantile(floor.took, 0.99)), "ConfigMap"
		one.Ratio = one.Ours / one.Peer
		r.add(one, "ours <= 20", one.Ours <= one.Target)
	}
	text := fmt.Sprintf("At %d requests a second, of a deployment of %s bytes, beside %d gangs of %d in %s s, p50 and p99 in ms:",
		o.perSecond, number(float64(requests.Bytes)), gangs, s.live.pods, number(time.Since(start).Seconds()))
	for _, kind := range kinds {
		text += fmt.Sprintf(" %s %s and %s of %d;", kind.name, number(millis(quantile(kind.took, 0.5))),
			number(millis(quantile(kind.took, 0.99))), len(kind.took))
	}
	r.note("%s", text[:len(text)-1]+".")
	return nil
}

// ask sends one phase of requests. A failed request is an error.
func (a *asked) ask(ctx context.Context, o operatingSizes) error {
	phase, cancel := context.WithTimeout(ctx, o.phase)
	defer cancel()
	var took []time.Duration
	for _, one := range live.Ask(phase, o.perSecond, a.questions...) {
		if one.Err != nil {
			return one.Err
		}
		took = append(took, one.Took)
	}
	if len(took) == 0 {
		return errors.New("nothing was asked")
	}
	fmt.Fprintf(os.Stderr, "  %s: p50 %s, p99 %s\n", a.name, quantile(took, 0.5).Round(10*time.Microsecond), quantile(took,
		0.99).Round(10*time.Microsecond))
	a.took = append(a.took, took...)
	return ctx.Err()
}

// quantile returns the smallest duration that is not below the given share of all durations.
func quantile(times []time.Duration, share float64) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[max(0, int(math.Ceil(share*float64(len(times))))-1)]
}
