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

// newsSuffix is the suffix of the file with the latest progress of a build, for the processes that wait for the build.
const newsSuffix = ".progress"

// newsInterval is how often a waiting process reads the progress file.
const newsInterval = 200 * time.Millisecond

// shared reports progress to report and, by a file, to the processes that wait. The build continues if it cannot write the file.
func shared(file string, report progress.Func) progress.Func {
	return func(e progress.Event) {
		report.Tell(e)
		if data, err := json.Marshal(e); err == nil && os.WriteFile(file+".new", data, 0o600) == nil {
			_ = os.Rename(file+".new", file)
		}
	}
}

// relay reports the progress of another process from its file until the caller calls end. It reports each event once.
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
