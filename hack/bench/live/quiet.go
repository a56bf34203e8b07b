// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

const (
	// quiet is the maximum share of the cores' time in use when a measurement starts: the heartbeats of 2,000 nodes take some.
	quiet = 0.3
	// quietFor is how long the share has to stay below quiet.
	quietFor = 2 * time.Second
)

// untilQuiet is [untilQuiet], unless the run is hasty.
func (c *Cluster) untilQuiet(ctx context.Context) error {
	if c.Hasty {
		return nil
	}
	return untilQuiet(ctx)
}

// untilQuiet waits until the machine is quiet. It does not wait if the kernel does not provide the load (not Linux).
func untilQuiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(quietFor / 2)
	defer tick.Stop()
	last, err := cpuTimes()
	if err != nil {
		return nil // no information
	}
	for calm := 0; calm < 2; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until the machine is quiet: %w", context.Cause(ctx))
		case <-tick.C:
		}
		now, err := cpuTimes()
		if err != nil {
			return err
		}
		busy := 1 - (now.idle-last.idle)/(now.all-last.all)
		if last = now; busy < quiet {
			calm++
		} else {
			calm = 0
		}
	}
	return nil
}

// times are the seconds of all cores together since the machine was started.
type times struct{ idle, all float64 }

func cpuTimes() (times, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return times{}, err
	}
	stat, err := fs.Stat()
	if err != nil {
		return times{}, err
	}
	t := stat.CPUTotal
	idle := t.Idle + t.Iowait
	return times{idle, idle + t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal}, nil
}
