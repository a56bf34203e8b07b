// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// newsSuffix ends the name of the file that holds the latest progress of a build, for the processes that wait for it.
const newsSuffix = ".progress"

// newsInterval is how often a waiting process looks at it.
const newsInterval = 200 * time.Millisecond

// shared reports progress here and to the processes that wait. A file that cannot be written is no reason to stop the build.
func shared(file string, report progress.Func) progress.Func {
	return func(e progress.Event) {
		report.Tell(e)
		if data, err := json.Marshal(e); err == nil && os.WriteFile(file+".new", data, 0o600) == nil {
			_ = os.Rename(file+".new", file)
		}
	}
}

// relay reports the progress that another process shares, until it is ended. Each piece of news is reported once; nothing is reported after
// the end.
func relay(ctx context.Context, file string, report progress.Func) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var last progress.Event
		_ = wait.PollUntilContextCancel(ctx, newsInterval, true, func(context.Context) (bool, error) {
			var e progress.Event
			data, err := os.ReadFile(file)
			if err == nil && json.Unmarshal(data, &e) == nil && e != last {
				last = e
				report.Tell(e)
			}
			return false, nil
		})
	}()
	return func() {
		cancel()
		<-done
	}
}
