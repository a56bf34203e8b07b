// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// formerCommit is the last version that stored v1alpha1.
const formerCommit = "886ffe1"

// create measures deployments without pods, written in v1alpha1, with the version that stored v1alpha1 and with this version, which
// converts them.
func create(ctx context.Context, s sizes, r *report) (err error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	former, err := live.Build(ctx, root, formerCommit, filepath.Join(cache, "trellis", "bench"))
	if err != nil {
		return fmt.Errorf("building %s, which the history of the repository has to hold: %w", formerCommit, err)
	}
	var sides []side
	for _, source := range []string{former, root} {
		name := filepath.Base(source)
		i, upErr := live.Install(ctx, source, "bench-"+strconv.Itoa(len(sides)))
		if upErr != nil {
			return upErr
		}
		defer func() { err = errors.Join(err, i.Remove()) }()
		one := func() (time.Duration, error) {
			took, err := i.Create(ctx, s.live.deployments)
			fmt.Fprintf(os.Stderr, "  %s: %s\n", name, took.Round(10*time.Microsecond))
			return took, err
		}
		if _, err := one(); err != nil { // warm up
			return err
		}
		sides = append(sides, one)
	}
	t, err := means(s.live.rounds, sides...)
	if err != nil {
		return err
	}
	r.atMost(fmt.Sprintf("API server CPU time for a v1alpha1 deployment, mean of %d", s.live.deployments), "ms", millis(t[1]), millis(t[0]),
		formerCommit, 1.1)
	return nil
}
