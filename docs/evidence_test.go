// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/hack/evidence"
)

// TestPagesQuoteTheEvidence: pages say of the long runs what docs/evidence.yaml has, each run is on a page, and a command that repeats a run
// has its seed.
func TestPagesQuoteTheEvidence(t *testing.T) {
	f, err := evidence.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for page, content := range pages(t) {
		all.WriteString(content)
		text, err := f.Quote(content)
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		if text != content {
			t.Errorf("%s differs from %s; run: make generate", page, evidence.FileName)
		}
	}
	for _, run := range f.Runs {
		if !strings.Contains(all.String(), "<!-- evidence: "+run.Name+" -->") {
			t.Errorf("no page quotes the run %s", run.Name)
		}
	}
	for _, name := range evidence.Required {
		if _, err := f.Run(name); err != nil {
			t.Error(err)
		}
	}
	soak, err := f.Run("soak")
	if err != nil {
		t.Fatal(err)
	}
	reliability := part(t, "dev/reliability.md", "## Soak")
	if soak.Seed != "" && !strings.Contains(reliability, "make soak SEED="+soak.Seed+"\n") {
		t.Errorf("reliability.md does not repeat the soak of seed %s", soak.Seed)
	}
}

// TestLongRunsAreRecorded: the target that each row names writes it.
func TestLongRunsAreRecorded(t *testing.T) {
	var makefiles string
	for _, name := range []string{"long.mk", "bench.mk"} {
		raw, err := os.ReadFile(filepath.Join(root, "make", name))
		if err != nil {
			t.Fatal(err)
		}
		makefiles += string(raw)
	}
	f, err := evidence.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, call := range regexp.MustCompile(`\$\(call RECORD,([a-z-]+)[,)]`).FindAllStringSubmatch(makefiles, -1) {
		written = append(written, call[1])
	}
	for _, run := range f.Runs {
		target := strings.TrimPrefix(run.Command, "make ")
		if !strings.Contains(makefiles, "\n"+target+": ") {
			t.Logf("make has no target %s yet", target)
			continue
		}
		if !slices.Contains(written, run.Name) {
			t.Errorf("make %s does not write the row %s", target, run.Name)
		}
	}
}
