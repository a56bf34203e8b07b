// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Show shows a report. before is the previous report, nil at first.
type Show func(r Status, before *Status) error

// Follow shows every report that differs from the previous report. Unless forever is set, it returns when the graph is ready and fully
// updated. The sender closes observations when the graph is deleted.
func Follow(ctx context.Context, observations <-chan Observed, show Show, forever bool) error {
	var last *Status
	for {
		select {
		case <-ctx.Done():
			return ended(ctx, last)
		case observed, there := <-observations:
			if !there {
				return errors.New("the DynamoGraphDeployment was deleted")
			}
			report := Build(observed)
			if last == nil || !reflect.DeepEqual(report, *last) {
				if err := show(report, last); err != nil {
					return err
				}
			}
			if last = &report; report.Done && !forever {
				return nil
			}
		}
	}
}

// ended returns the error for watching that was interrupted or timed out. The error contains the last known state of the graph.
func ended(ctx context.Context, last *Status) error {
	why := "interrupted"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = "timed out"
	}
	if last == nil {
		return errors.New(why)
	}
	return fmt.Errorf("%s: %s", why, last.headline())
}
