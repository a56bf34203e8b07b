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

// unusedAfter is how long an unused build is kept: a build has some hundred megabytes, and every change of its module makes another. A
// removed build that is needed again is built again.
const unusedAfter = 30 * 24 * time.Hour

// builds matches the builds of this package in the cache directory: complete ones, and temporary directories that a
// killed process left behind.
var builds = regexp.MustCompile(`^(controlplane|node|dns)-([0-9a-f]{12}|building-[0-9]+)$`)

// markUsed sets the modification time of a build to the time of its last use. It ignores an error: a user without write
// permission cannot prune either.
func markUsed(dir string, now time.Time) {
	_ = os.Chtimes(dir, now, now)
}

// prune removes and reports the builds in the cache directory that have not been used for unusedAfter. It keeps their empty lock files,
// because another process may be waiting for a lock.
func prune(cache string, now time.Time, report progress.Func) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	var failures []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !builds.MatchString(e.Name()) || now.Sub(info.ModTime()) < unusedAfter {
			continue // another process removed this build in the meantime
		}
		report.Say("removing a build that was not used for %d days: %s", int(now.Sub(info.ModTime()).Hours()/24), e.Name())
		if err := os.RemoveAll(filepath.Join(cache, e.Name())); err != nil {
			failures = append(failures, fmt.Errorf("removing %s: %w", e.Name(), err))
		}
	}
	return errors.Join(failures...)
}
