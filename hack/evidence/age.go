// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Age is what has changed since a run in what it is about.
type Age struct {
	Run
	// Commits and Lines (added and removed) count the changes since the commit of the run. A reverted change counts in Commits, not in Lines.
	Commits, Lines int
	// Unknown says why they are not known: the clone lacks the commit.
	Unknown string
}

// Problem says why the row is no evidence of the commit that it is compared with; it is empty if it is.
func (a Age) Problem() string {
	var problems []string
	if a.Commit == "" {
		problems = append(problems, "no run is recorded")
	}
	if a.Failed {
		problems = append(problems, "the last run failed")
	}
	if a.Unknown != "" {
		problems = append(problems, a.Unknown)
	}
	if a.Lines > 0 {
		problems = append(problems, fmt.Sprintf("%s and %s since", count(a.Commits, "commit"), count(a.Lines, "line")))
	}
	return strings.Join(problems, ", ")
}

func count(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}

// written are files below the covered folders that a release's own commit changes, which says nothing about behaviour: the version of the
// source.
const written = "internal/version/source.go"

// pathspecs are those of git for what a run is about: the code, without tests, and the checks.
func (r Run) pathspecs() [][]string {
	code := []string{":(exclude,glob)**/*_test.go", ":(exclude,glob)**/testdata/**", ":(exclude)" + written}
	for _, folder := range r.Covers {
		if left, out := strings.CutPrefix(folder, "!"); out {
			code = append(code, ":(exclude)"+left)
			continue
		}
		code = append(code, path.Clean(folder))
	}
	return [][]string{code, r.Checks}
}

// Since compares a row with a later commit of a clone.
func (r Run) Since(ctx context.Context, clone, head string) (Age, error) {
	a := Age{Run: r}
	if r.Commit == "" {
		return a, nil
	}
	if _, err := git(ctx, clone, "cat-file", "-e", r.Commit+"^{commit}"); err != nil {
		a.Unknown = "this clone lacks commit " + r.Commit[:8] + " (git fetch --unshallow)"
		return a, nil //nolint:nilerr // the commit that is not there is the answer
	}
	seen := map[string]bool{}
	for _, specs := range r.pathspecs() {
		commits, err := git(ctx, clone, append([]string{"rev-list", r.Commit + ".." + head, "--"}, specs...)...)
		if err != nil {
			return a, err
		}
		for _, commit := range strings.Fields(commits) {
			seen[commit] = true
		}
		stat, err := git(ctx, clone, append([]string{"diff", "--numstat", r.Commit, head, "--"}, specs...)...)
		if err != nil {
			return a, err
		}
		a.Lines += lines(stat)
	}
	a.Commits = len(seen)
	return a, nil
}

// lines adds what git diff --numstat prints: added, removed and the file. A file that is no text counts as one line.
func lines(stat string) int {
	n := 0
	for line := range strings.Lines(stat) {
		for _, field := range strings.Fields(line)[:2] {
			if changed, err := strconv.Atoi(field); err == nil {
				n += changed
			}
		}
		if strings.HasPrefix(line, "-") {
			n++
		}
	}
	return n
}

// uncommitted lists the changed files of a clone among those that a run is about.
func (r Run) uncommitted(ctx context.Context, clone string) ([]string, error) {
	var changed []string
	for _, specs := range r.pathspecs() {
		status, err := git(ctx, clone, append([]string{"status", "--porcelain", "--no-renames", "--"}, specs...)...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(status) {
			changed = append(changed, strings.TrimSpace(line[2:]))
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

// Ages compares all rows with a commit of a clone.
func (f *File) Ages(ctx context.Context, clone, head string) ([]Age, error) {
	ages := make([]Age, 0, len(f.Runs))
	for _, run := range f.Runs {
		age, err := run.Since(ctx, clone, head)
		if err != nil {
			return nil, err
		}
		ages = append(ages, age)
	}
	return ages, nil
}

// Check refuses a commit, checked out in a clone, for which a required run is missing, failed, or older than what it covers.
func Check(ctx context.Context, clone string) error {
	f, err := Load(clone)
	if err != nil {
		return err
	}
	ages, err := f.Ages(ctx, clone, "HEAD")
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range Required {
		i := slices.IndexFunc(ages, func(a Age) bool { return a.Name == name })
		switch {
		case i < 0:
			problems = append(problems, fmt.Errorf("%s: %s has no such row", name, FileName))
		case ages[i].Problem() != "":
			problems = append(problems, fmt.Errorf("%s: %s (%s)", name, ages[i].Problem(), ages[i].Command))
		}
	}
	return errors.Join(problems...)
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
