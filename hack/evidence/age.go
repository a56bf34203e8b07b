// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-k8s/trellis/hack/git"
)

// Age is a run with the changes since its commit to the code that it covers and to its checks.
type Age struct {
	Run
	// Commits and Lines (added and removed) count the changes since the commit of the run, without Go files of which only
	// comments have changed. Another reverted change counts in Commits, not in Lines.
	Commits, Lines int
	// Unknown says why Commits and Lines are not known: the clone lacks the commit of the run.
	Unknown string
}

// Problem says why the run is not evidence for the commit that it is compared with. It is empty if the run is evidence.
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

// written is the file of the source version, which every release commit changes without a change of behaviour. It is not counted
// although its folder is covered.
const written = "internal/version/source.go"

// pathspecs are git pathspecs: first of the code that the run covers, without tests, then of its checks.
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

// Since compares the commit of a run with a later commit of a clone.
func (r Run) Since(ctx context.Context, clone, head string) (Age, error) {
	a := Age{Run: r}
	if r.Commit == "" {
		return a, nil
	}
	if _, err := git.Run(ctx, clone, "cat-file", "-e", r.Commit+"^{commit}"); err != nil {
		a.Unknown = "this clone lacks commit " + r.Commit[:8] + " (git fetch --unshallow)"
		return a, nil //nolint:nilerr // the commit that is not there is the answer
	}
	seen := map[string]bool{}
	for _, specs := range r.pathspecs() {
		same, err := onlyComments(ctx, clone, r.Commit, head, specs)
		if err != nil {
			return a, err
		}
		for _, file := range same {
			specs = append(specs, ":(exclude)"+file)
		}
		commits, err := git.Run(ctx, clone, append([]string{"rev-list", r.Commit + ".." + head, "--"}, specs...)...)
		if err != nil {
			return a, err
		}
		for _, commit := range strings.Fields(commits) {
			seen[commit] = true
		}
		stat, err := git.Run(ctx, clone, append([]string{"diff", "--numstat", r.Commit, head, "--"}, specs...)...)
		if err != nil {
			return a, err
		}
		a.Lines += lines(stat)
	}
	a.Commits = len(seen)
	return a, nil
}

// lines counts the added and removed lines in the output of git diff --numstat. A binary file counts as one line.
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

// uncommitted lists the files of a clone with uncommitted changes that the run covers or checks.
func (r Run) uncommitted(ctx context.Context, clone string) ([]string, error) {
	var changed []string
	for _, specs := range r.pathspecs() {
		status, err := git.Run(ctx, clone, append([]string{"status", "--porcelain", "--no-renames", "--"}, specs...)...)
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

// Ages compares the commits of all runs with a commit of a clone.
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

// Check is an error if a required run is missing, failed, or older than a change to its code or checks, for the
// checked out commit of a clone.
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
