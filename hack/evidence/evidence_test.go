// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/hack/git"
)

const rows = `runs:
- {name: soak, command: make soak, covers: [internal, "!internal/cli"], checks: ["test/soak*_test.go"]}
- {name: faults, command: make test-faults, covers: [internal], checks: [test]}
`

// clone is a repository with an operator, its plugin, and a soak.
type clone struct {
	t   *testing.T
	dir string
}

func newClone(t *testing.T) clone {
	t.Helper()
	c := clone{t, t.TempDir()}
	c.git("init", "--quiet")
	for name, text := range map[string]string{
		FileName: rows, "README.md": "# Trellis\n", "docs/soak.md": "<!-- evidence: soak -->\n<!-- end of evidence -->\n",
		"internal/place.go": "1\n", "internal/place_test.go": "1\n", "internal/cli/tree.go": "1\n", "test/soak_test.go": "1\n", written: "v1\n",
	} {
		c.write(name, text)
	}
	c.commit()
	return c
}

func (c clone) git(args ...string) string {
	c.t.Helper()
	out, err := git.Run(c.t.Context(), c.dir, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false"}, args...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (c clone) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c clone) commit() string {
	c.t.Helper()
	c.git("add", ".")
	c.git("commit", "--quiet", "--allow-empty", "--message=x")
	return c.git("rev-parse", "HEAD")
}

// record runs a shell command in place of the soak, and returns the report about its evidence row.
func (c clone) record(command, other string) (string, error) {
	c.t.Helper()
	var said bytes.Buffer
	err := Record(c.t.Context(), Recording{
		Clone: c.dir, Name: "soak", Seed: "7", Other: other, Command: []string{"sh", "-c", command}, Out: &said, ErrOut: &said,
		Now: func() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) },
	})
	return said.String(), err
}

func (c clone) row() Run {
	c.t.Helper()
	f, err := Load(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	run, err := f.Run("soak")
	if err != nil {
		c.t.Fatal(err)
	}
	return *run
}

// TestRecord: a run that passes becomes a row of the commit that it ran on, and the page that quotes it says the same.
func TestRecord(t *testing.T) {
	c := newClone(t)
	head := c.git("rev-parse", "HEAD")
	said, err := c.record("echo Random Seed: 3; echo '  evidence: 0 invariants broken'; echo 'Ran 2 of 9 Specs in 1 seconds'", "")
	if err != nil {
		t.Fatal(said, err)
	}
	want := Run{
		Name: "soak", Command: "make soak", Covers: []string{"internal", "!internal/cli"}, Checks: []string{"test/soak*_test.go"},
		Commit: head, Date: "2026-11-30", Seed: "7", Result: "0 invariants broken; 2 specs passed; 0s",
	}
	if diff := cmp.Diff(want, c.row()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	page, err := os.ReadFile(filepath.Join(c.dir, "docs/soak.md"))
	if err != nil {
		t.Fatal(err)
	}
	quote := "<!-- evidence: soak -->\nThe last recorded run of `make soak` passed on 30 November 2026, commit `" + head[:8] +
		"`, seed 7: 0\ninvariants broken; 2 specs passed; 0s.\n<!-- end of evidence -->\n"
	if diff := cmp.Diff(quote, string(page)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNotRecorded: a run that proves nothing about a commit leaves the file as it is.
func TestNotRecorded(t *testing.T) {
	const passes = "echo evidence: x"
	for name, tc := range map[string]struct {
		before, command, other, says, err string
	}{
		"it fails":                      {command: passes + "; exit 3", err: "exit status 3"},
		"it runs nothing":               {command: "echo Ran 0 of 9 Specs", err: "no spec ran"},
		"it is another run":             {command: passes, other: "GINKGOFLAGS", says: "GINKGOFLAGS makes it another run"},
		"code is not committed":         {before: "internal/place.go", command: passes, says: "1 changed file not committed, among them internal/place.go"},
		"new code is not committed":     {before: "internal/new.go", command: passes, says: "among them internal/new.go"},
		"a check is not committed":      {before: "test/soak2_test.go", command: passes, says: "among them test/soak2_test.go"},
		"code is edited while it runs":  {command: passes + "; echo 2 > internal/place.go", err: "passed and is not recorded: 1 changed file"},
		"code is committed while it is": {command: passes + "; echo 2 > internal/place.go; git -c user.name=a -c user.email=a commit -qam x", err: "another commit"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClone(t)
			if tc.before != "" {
				c.write(tc.before, "2\n")
			}
			t.Chdir(c.dir)
			said, err := c.record(tc.command, tc.other)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) || !strings.Contains(said, tc.says) {
				t.Errorf("%v: %s", err, said)
			}
			if row := c.row(); row.Commit != "" {
				t.Errorf("it is recorded: %+v", row)
			}
		})
	}
}

// TestSince: what makes a row old, and what does not.
func TestSince(t *testing.T) {
	for name, tc := range map[string]struct {
		change []string
		want   string
	}{
		"nothing":                      {nil, ""},
		"the code":                     {[]string{"internal/place.go"}, "1 commit and 2 lines since"},
		"new code, twice":              {[]string{"internal/new.go", "internal/new.go"}, "2 commits and 1 line since"},
		"the check":                    {[]string{"test/soak_test.go"}, "1 commit and 2 lines since"},
		"tests of the code":            {[]string{"internal/place_test.go", "internal/testdata/x"}, ""},
		"what the run is not about":    {[]string{"internal/cli/tree.go", "docs/soak.md"}, ""},
		"the version of the source":    {[]string{written}, ""},
		"another check than the row's": {[]string{"test/other_test.go"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClone(t)
			if _, err := c.record("echo evidence: x", ""); err != nil {
				t.Fatal(err)
			}
			for i, file := range tc.change {
				c.write(file, fmt.Sprintf("change %d\n", i))
				c.commit()
			}
			age, err := c.row().Since(t.Context(), c.dir, "HEAD")
			if err != nil || age.Problem() != tc.want {
				t.Errorf("got %q (%v), want %q", age.Problem(), err, tc.want)
			}
		})
	}
	t.Run("it is reverted", func(t *testing.T) {
		c := newClone(t)
		if _, err := c.record("echo evidence: x", ""); err != nil {
			t.Fatal(err)
		}
		c.write("internal/place.go", "2\n")
		c.commit()
		c.write("internal/place.go", "1\n")
		c.commit()
		if age, err := c.row().Since(t.Context(), c.dir, "HEAD"); err != nil || age.Problem() != "" || age.Commits != 2 {
			t.Errorf("%+v: %v", age, err)
		}
	})
	t.Run("only comments of Go files", func(t *testing.T) {
		c := newClone(t)
		const code = "package internal\n\n// A is %s.\n//\n// +%s\nconst A = %d // %s\n"
		c.write("internal/place.go", fmt.Sprintf(code, "one", "x", 1, "one"))
		c.commit()
		if _, err := c.record("echo evidence: x", ""); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct{ source, want string }{
			{fmt.Sprintf(code, "the first", "x", 1, "1"), ""},
			{fmt.Sprintf(code, "the first", "y", 1, "1"), "2 commits and 6 lines since"},
			{fmt.Sprintf(code, "the first", "x", 2, "1"), "3 commits and 4 lines since"},
		} {
			c.write("internal/place.go", tc.source)
			c.commit()
			if age, err := c.row().Since(t.Context(), c.dir, "HEAD"); err != nil || age.Problem() != tc.want {
				t.Errorf("%q: got %q (%v), want %q", tc.source, age.Problem(), err, tc.want)
			}
		}
	})
	t.Run("the clone lacks the commit", func(t *testing.T) {
		c := newClone(t)
		row := c.row()
		row.Commit = strings.Repeat("a", 40)
		if age, err := row.Since(t.Context(), c.dir, "HEAD"); err != nil || !strings.Contains(age.Problem(), "lacks commit aaaaaaaa") {
			t.Errorf("%+v: %v", age, err)
		}
	})
}

// TestCheck: a release needs each of the required rows, passed and current.
func TestCheck(t *testing.T) {
	c := newClone(t)
	head := c.git("rev-parse", "HEAD")
	text := "runs:\n"
	for _, name := range Required {
		text += fmt.Sprintf("- {name: %s, command: make %s, covers: [internal], checks: [test/soak_test.go], commit: %s, date: \"2026-11-30\", result: x}\n",
			name, name, head)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"all of them": {text, ""},
		"one failed":  {strings.Replace(text, "result: x", "failed: true, result: x", 1), "faults: the last run failed (make faults)"},
		"no run":      {"runs:\n" + strings.SplitN(text, "\n", 3)[2] + "- {name: faults, command: make faults, covers: [a], checks: [a]}\n", "faults: no run is recorded"},
		"no row":      {strings.Replace(text, "name: soak", "name: other", 1), "soak: docs/evidence.yaml has no such row"},
	} {
		c.write(FileName, tc.text)
		err := Check(t.Context(), c.dir)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.write(FileName, text)
	c.write("internal/place.go", "2\n")
	c.commit()
	if err := Check(t.Context(), c.dir); err == nil || strings.Count(err.Error(), "1 commit and 2 lines since") != len(Required) {
		t.Errorf("after a change: %v", err)
	}
}

// TestParseRefuses: rows that say half.
func TestParseRefuses(t *testing.T) {
	const row = "runs:\n- {name: soak, command: make soak, covers: [a], checks: [b]"
	for text, want := range map[string]string{
		"runs:\n- {name: soak}\n":                                                  "want a name, a command",
		row + ", result: x}\n":                                                     "it has a result and no commit",
		row + ", commit: 7ff81437}\n":                                              "want all 40 digits",
		row + ", comit: 7ff81437}\n":                                               "field comit not found",
		row + "}\n" + strings.TrimPrefix(row, "runs:\n") + "}\n":                   "listed twice",
		row + ", commit: " + strings.Repeat("a", 40) + "}\n":                       "date",
		row + ", commit: " + strings.Repeat("a", 40) + ", date: \"2026-11-30\"}\n": "want one line",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
