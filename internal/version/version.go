// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version reports which build of the project a program is. The Go toolchain records it in every binary: a release is built from a
// commit that is tagged with its version. For any other build the toolchain makes up a pseudo-version, from the last tag that the clone
// has: v0.2.1-0.20261122021902-4450ab3f330f names a release that does not exist. Such a build reports the version of its source, such as
// v0.3.0-dev, and its commit.
package version

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// unknown stands for what a build did not record: tests and builds outside a clone record no revision.
const unknown = "unknown"

// pseudo is a version of the toolchain's making, with the first digits of the commit; +dirty follows when files differed from it.
var pseudo = regexp.MustCompile(`^v\d+\.\d+\.\d+-(?:.*\.)?\d{14}-([0-9a-f]{12})(\+.*)?$`)

// Info identifies a build.
type Info struct {
	// Version is a semantic version with a leading v: the tag that it was built from, or that of its source.
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
		Version: build.Main.Version, Revision: unknown,
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
	made := pseudo.FindStringSubmatch(info.Version)
	if made != nil && info.Revision == unknown { // go install MODULE@BRANCH records no revision
		info.Revision = made[1]
	}
	if made != nil || !strings.HasPrefix(info.Version, "v") {
		info.Version = Source
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
