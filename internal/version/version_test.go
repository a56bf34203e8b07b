// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const commit = "4450ab3f330fafcb9022f4c870e7096ce6ccfe92"

func TestFromBuildInfo(t *testing.T) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for name, tc := range map[string]struct {
		build debug.BuildInfo
		want  Info
		text  string
	}{
		"a release": {
			build: debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"},
			}},
			want: Info{Version: "v0.1.0", Revision: commit, GoVersion: "go1.26.8", Platform: platform},
			text: "v0.1.0 (commit 4450ab3f330f, go1.26.8, " + platform + ")",
		},
		"changed files": {
			build: debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.1-0.20261122021902-4450ab3f330f+dirty"}, Settings: []debug.BuildSetting{
				{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: commit},
			}},
			want: Info{Version: Source, Revision: commit + "-dirty", GoVersion: "go1.26.8", Platform: platform},
			text: Source + " (commit 4450ab3f330f-dirty, go1.26.8, " + platform + ")",
		},
		"a commit after no tag": {
			build: debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.0.0-20261122021902-4450ab3f330f"}, Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"},
			}},
			want: Info{Version: Source, Revision: commit, GoVersion: "go1.26.8", Platform: platform},
			text: Source + " (commit 4450ab3f330f, go1.26.8, " + platform + ")",
		},
		"go install of a branch": {
			build: debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.3.0-rc.1.0.20261122021902-4450ab3f330f"}},
			want:  Info{Version: Source, Revision: "4450ab3f330f", GoVersion: "go1.26.8", Platform: platform},
			text:  Source + " (commit 4450ab3f330f, go1.26.8, " + platform + ")",
		},
		"a pre-release": {
			build: debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.3.0-rc.1"}},
			want:  Info{Version: "v0.3.0-rc.1", Revision: "unknown", GoVersion: "go1.26.8", Platform: platform},
			text:  "v0.3.0-rc.1 (commit unknown, go1.26.8, " + platform + ")",
		},
		"built outside a clone": {
			build: debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}},
			want:  Info{Version: Source, Revision: "unknown", GoVersion: "go1.26.8", Platform: platform},
			text:  Source + " (commit unknown, go1.26.8, " + platform + ")",
		},
		"nothing recorded": {
			want: Info{Version: Source, Revision: "unknown", GoVersion: runtime.Version(), Platform: platform},
			text: Source + " (commit unknown, " + runtime.Version() + ", " + platform + ")",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := from(&tc.build)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.String() != tc.text {
				t.Errorf("got %q, want %q", got, tc.text)
			}
		})
	}
}
