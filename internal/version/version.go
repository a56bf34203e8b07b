// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version reports which build of the project a program is. The Go toolchain records it in every binary: a release is built from a
// commit that is tagged with its version, any other build has a pseudo-version such as v0.1.1-0.20261122021902-4450ab3f330f+dirty.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// unknown stands for what a build did not record: tests and builds outside a clone record neither version nor revision.
const unknown = "unknown"

// Info identifies a build.
type Info struct {
	// Version is a semantic version with a leading v, "(devel)" or "unknown".
	Version string `json:"version"`
	// Revision is the full hash of the commit, with the suffix -dirty when files differed from it, or "unknown".
	Revision string `json:"revision"`
	// GoVersion is the toolchain's, such as go1.26.8.
	GoVersion string `json:"goVersion"`
	// Platform is what the program was built for, such as linux/amd64.
	Platform string `json:"platform"`
}

// Get returns the build of the running program.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return from(build)
}

func from(build *debug.BuildInfo) Info {
	info := Info{
		Version: cmp.Or(build.Main.Version, unknown), Revision: unknown,
		GoVersion: cmp.Or(build.GoVersion, runtime.Version()), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	dirty := ""
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Revision = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	info.Revision += dirty
	return info
}

// String is one line: v0.1.0 (commit 4450ab3f330f, go1.26.8, linux/amd64).
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", i.Version, short(i.Revision), i.GoVersion, i.Platform)
}

// short keeps the first digits of a hash, and the suffix of a dirty one.
func short(revision string) string {
	const hash, digits = 40, 12
	if len(revision) < hash {
		return revision
	}
	return revision[:digits] + revision[hash:]
}
