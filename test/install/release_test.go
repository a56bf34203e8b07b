// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/version"
)

// releases has what the operator of each release knows, written when the release is prepared (hack/release).
const releases = "testdata/releases"

// knownBy are the flags and annotations that the operator of a release knows.
func knownBy(t *testing.T, release string) (flags, annotations []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(releases, release+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var known struct{ Flags, Annotations []string }
	if err := yaml.UnmarshalStrict(raw, &known); err != nil {
		t.Fatal(err)
	}
	return known.Flags, known.Annotations
}

// flagsOf are the flags that the operator in an image of a version knows. That of a development version is built of this source.
func flagsOf(t *testing.T, of string) []string {
	t.Helper()
	if of != version.Source {
		flags, _ := knownBy(t, of)
		return flags
	}
	var flags []string
	set := pflag.NewFlagSet("trellis-manager", pflag.ContinueOnError)
	(&operator.Options{}).AddFlags(set)
	set.VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	return flags
}

// setFlag is a line of a manifest, a patch or a template of the chart that gives the operator a flag.
var setFlag = regexp.MustCompile(`(?m)^\s*(?:-|value:)\s+(?:\{\{ printf ")?--([a-z-]+)`)

// flagsSet are the flags that files below folders give the operator, with a file of each.
func flagsSet(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || strings.Contains(path, "samples") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, flag := range setFlag.FindAllSubmatch(text, -1) {
				found[string(flag[1])] = path
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// The image that the manifests and the chart name knows every flag that they, their components and their values set: an operator with an
// unknown flag does not start.
func TestPinnedImageKnowsItsFlags(t *testing.T) {
	for _, pin := range []struct {
		file, pattern string
		folders       []string
	}{
		{"config/manager/kustomization.yaml", `newTag: (\S+)`, []string{"config"}},
		{"charts/trellis/Chart.yaml", `appVersion: (\S+)`, []string{"charts/trellis/templates"}},
	} {
		raw, err := os.ReadFile(filepath.Join(root, pin.file))
		if err != nil {
			t.Fatal(err)
		}
		pinned := string(regexp.MustCompile(pin.pattern).FindSubmatch(raw)[1])
		known, set := flagsOf(t, pinned), flagsSet(t, pin.folders...)
		if set["capacity-requests"] == "" || set["webhook-port"] == "" {
			t.Errorf("%v: this test finds only %v", pin.folders, set)
		}
		for flag, file := range set {
			if !slices.Contains(known, flag) && !strings.HasPrefix(flag, "zap-") { // those are of a library
				t.Errorf("%s sets --%s, which the operator of %s does not know; %s names that version", file, flag, pinned, pin.file)
			}
		}
	}
}

// The release that the README installs knows every annotation that the README's tour uses, and every flag.
func TestReadmeInstallsWhatItUses(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tour, _ := strings.Cut(string(raw), "\n## Five minutes on a real cluster\n")
	tour, _, _ = strings.Cut(tour, "\n## ")
	installs := regexp.MustCompile(`/releases/download/(v[0-9.]+)\n`).FindStringSubmatch(tour)
	if installs == nil {
		t.Fatal("the README's tour installs no release")
	}
	flags, annotations := knownBy(t, installs[1])
	for _, used := range regexp.MustCompile(`\btrellis\.dev/[a-z0-9-]+`).FindAllString(tour, -1) {
		if !slices.Contains(annotations, used) && !strings.Contains(tour, "topology."+used) { // labels of nodes are the user's
			t.Errorf("the README's tour uses %s, which %s does not know", used, installs[1])
		}
	}
	ours := flagsOf(t, version.Source)
	for _, used := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(tour, -1) {
		if slices.Contains(ours, used[1]) && used[1] != "namespace" && !slices.Contains(flags, used[1]) { // Helm and kubectl have --namespace
			t.Errorf("the README's tour uses %s, which %s does not know", used[0], installs[1])
		}
	}
	if checkout := regexp.MustCompile(`git checkout (v[0-9.]+)`).FindSubmatch(raw); checkout == nil || string(checkout[1]) != installs[1] {
		t.Errorf("the README checks out another version than %s, which it downloads", installs[1])
	}
}
