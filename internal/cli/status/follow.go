// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Show puts a report before the user's eyes. before is the one shown last, nil at first.
type Show func(r Status, before *Status) error

// Follow shows every report that differs from the one before, and ends when the graph is as wanted, unless it is to continue forever.
// observations is closed when the graph was deleted.
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

// ended explains why watching stopped before the graph was as wanted.
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
