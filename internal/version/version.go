// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version reports the build of the project from which a program comes. The Go toolchain records the build in every binary. A
// release is built from a commit that is tagged with the release's version. For any other build, the toolchain generates a pseudo-version
// from the last tag in the clone, such as v0.2.1-0.20261122021902-4450ab3f330f, which names a release that does not exist. Such a build
// instead reports the version of its source, such as v0.3.0-dev, and its commit.
package version

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// unknown stands for a value that a build did not record. Tests and builds outside a clone record no revision.
const unknown = "unknown"

// pseudo matches a version that the toolchain generated. It contains the first digits of the commit. The suffix +dirty follows if files
// differed from the commit.
var pseudo = regexp.MustCompile(`^v\d+\.\d+\.\d+-(?:.*\.)?\d{14}-([0-9a-f]{12})(\+.*)?$`)

// Info identifies a build.
type Info struct {
	// Version is a semantic version with a leading v: the tag from which the program was built, or the version of its source.
	Version string `json:"version"`
	// Revision is the full hash of the commit, or "unknown". It has the suffix -dirty if files differed from the commit.
	Revision string `json:"revision"`
	// GoVersion is the version of the Go toolchain, such as go1.26.8.
	GoVersion string `json:"goVersion"`
	// Platform is the platform for which the program was built, such as linux/amd64.
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

// String returns one line: v0.1.0 (commit 4450ab3f330f, go1.26.8, linux/amd64).
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", i.Version, short(i.Revision), i.GoVersion, i.Platform)
}

// short keeps the first digits of a hash, and the suffix -dirty.
func short(revision string) string {
	const hash, digits = 40, 12
	if len(revision) < hash {
		return revision
	}
	return revision[:digits] + revision[hash:]
}
