// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// unusedAfter is how long a build is kept that no one asks for: it is some hundred megabytes, and every change of its module makes
// another. A clone that is taken up again later builds again.
const unusedAfter = 30 * 24 * time.Hour

// builds of this package in the cache: finished ones, and scratch directories that a killed process left behind.
var builds = regexp.MustCompile(`^(controlplane|node|dns)-([0-9a-f]{12}|building-[0-9]+)$`)

// markUsed notes in a build's modification time that it is in use. It is no matter if that fails: who may not write may not prune either.
func markUsed(dir string, now time.Time) {
	_ = os.Chtimes(dir, now, now)
}

// prune removes the builds in the cache that were not used for long, and reports it. Their empty lock files stay, because someone may
// be waiting for one.
func prune(cache string, now time.Time, report progress.Func) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	var failures []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !builds.MatchString(e.Name()) || now.Sub(info.ModTime()) < unusedAfter {
			continue // one that is gone meanwhile was removed by another process
		}
		report.Say("removing a build that was not used for %d days: %s", int(now.Sub(info.ModTime()).Hours()/24), e.Name())
		if err := os.RemoveAll(filepath.Join(cache, e.Name())); err != nil {
			failures = append(failures, fmt.Errorf("removing %s: %w", e.Name(), err))
		}
	}
	return errors.Join(failures...)
}
