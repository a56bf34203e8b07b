// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kubescheduler

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The version of an API server selects the release, with whatever follows the number of the release.
func TestOf(t *testing.T) {
	for server, want := range map[string]string{
		"v1.36.0": "v1.36.", "v1.36.3-gke.100": "v1.36.", "v1.35.1+k3s1": "v1.35.", "v1.30.0": "v1.30.", "v1.37.0-rc.1": "v1.37.",
		"v1.29.4": "v1.30.", "v1.38.0": "v1.37.", "v2.0.0": "v1.37.", "": "v1.37.", "unknown": "v1.37.",
	} {
		if got := Of(server).Version; !strings.HasPrefix(got, want) {
			t.Errorf("%q is %s, want %sx", server, got, want)
		}
	}
}

// SpreadCountsAll holds from 1.38 on, release candidates included.
func TestSpreadCountsAll(t *testing.T) {
	for server, want := range map[string]bool{
		"v1.37.2": false, "v1.38.0-beta.0": true, "v1.38.1-eks-1": true, "v1.40.0": true, "v1.30.0": false, "v2.0.0": false, "": false, "unknown": false,
	} {
		if got := SpreadCountsAll(server); got != want {
			t.Errorf("%q: %t, want %t", server, got, want)
		}
	}
}

// A plugin and a gate count from the release that has them by default.
func TestDefaultsByRelease(t *testing.T) {
	for name, has := range map[string]func(Defaults) bool{
		"v1.36.": func(d Defaults) bool { return d.HasPlugin(NodeDeclaredFeatures) },
		"v1.34.": func(d Defaults) bool { return d.HasPlugin("DynamicResources") },
		"v1.37.": func(d Defaults) bool { return d.HasGate("VolumeLimitScaling") },
		"v1.30.": func(d Defaults) bool { return d.HasPlugin("NodeResourcesFit") },
	} {
		first := slices.IndexFunc(All(), has)
		if first < 0 || !strings.HasPrefix(All()[first].Version, name) || slices.ContainsFunc(All()[first:], func(d Defaults) bool { return !has(d) }) {
			t.Errorf("%s: not in all releases from there", name)
		}
	}
}

// Each plugin and each gate of the table is named in docs/placement.md.
func TestNamedInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/placement.md")
	if err != nil {
		t.Fatal(err)
	}
	_, about, found := strings.Cut(string(text), "\n### Filters of the kube-scheduler\n")
	about, _, ended := strings.Cut(about, "\n## Gates of other controllers\n")
	if !found || !ended {
		t.Fatal("docs/placement.md has no section on filters")
	}
	for _, d := range All() {
		for _, name := range slices.Concat(d.Plugins, d.Gates) {
			if !strings.Contains(about, "`"+name+"`") {
				t.Errorf("%s of %s is not named", name, d.Version)
			}
		}
	}
}
