// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence records the results of runs that take too long for every commit: fault injection, soak tests, tests with peers,
// benchmarks. docs/evidence.yaml has a row for each with the commit that was tested. A row is evidence for that commit: it stays current
// as long as neither the code that the run covers nor its checks change.
//
// make evidence lists the rows and the changes since, the long make targets write the rows, pages of the documentation quote them, and a
// full release fails if a row is missing, failed or not current.
package evidence

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// FileName is the path of the file with the rows in a clone.
const FileName = "docs/evidence.yaml"

const header = `# The last run of each check that takes too long for every commit. The targets of make write the results, and make evidence
# lists them. What a row covers and checks is written by hand: docs/dev/development.md#evidence.
`

// Required are the names of the runs that a full release needs.
var Required = []string{"faults", "soak", "peers", "kueue", "karpenter", "versions", "upgrade", "bench"}

// File is the content of docs/evidence.yaml.
type File struct {
	Runs []Run `yaml:"runs"`
}

// Run is a row: a command, the code that it covers, its checks, and its last result.
type Run struct {
	Name string `yaml:"name"`
	// Command is the command of the run.
	Command string `yaml:"command"`
	// Covers are the folders of the code that the run covers, without Go tests and testdata. A leading ! excludes a folder.
	Covers []string `yaml:"covers,flow"`
	// Checks are the git pathspecs of the tests and scripts of the run.
	Checks []string `yaml:"checks,flow"`

	// Commit is the full hash of the commit that was checked out when the run began. It is empty if no run is recorded.
	Commit string `yaml:"commit,omitempty"`
	// Date is the day on which the run ended, in UTC.
	Date string `yaml:"date,omitempty"`
	// Seed is the random seed, with which the order of the run can be repeated.
	Seed string `yaml:"seed,omitempty"`
	// Failed is set for a run that did not pass. The make targets write only runs that passed.
	Failed bool `yaml:"failed,omitempty"`
	// Result is the result in one line.
	Result string `yaml:"result,omitempty"`
	// Note says what else a reader must know, such as that the row was written by hand.
	Note string `yaml:"note,omitempty"`
}

var (
	fullCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)
	oneLine    = regexp.MustCompile(`^.*$`)
)

// Load reads the rows of a clone.
func Load(clone string) (*File, error) {
	raw, err := os.ReadFile(filepath.Join(clone, FileName))
	if err != nil {
		return nil, err
	}
	return parse(raw)
}

func parse(raw []byte) (*File, error) {
	f := &File{}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(f); err != nil {
		return nil, fmt.Errorf("%s: %w", FileName, err)
	}
	var problems []error
	seen := map[string]bool{}
	for _, run := range f.Runs {
		if err := run.check(); err != nil {
			problems = append(problems, fmt.Errorf("%s: run %q: %w", FileName, run.Name, err))
		}
		if seen[run.Name] {
			problems = append(problems, fmt.Errorf("%s: run %q is listed twice", FileName, run.Name))
		}
		seen[run.Name] = true
	}
	return f, errors.Join(problems...)
}

// check is an error if a row is incomplete.
func (r Run) check() error {
	if r.Name == "" || r.Command == "" || len(r.Covers) == 0 || len(r.Checks) == 0 {
		return errors.New("want a name, a command, and what it covers and checks")
	}
	if r.Commit == "" {
		if cmp.Or(r.Date, r.Seed, r.Result) != "" || r.Failed {
			return errors.New("it has a result and no commit")
		}
		return nil
	}
	if !fullCommit.MatchString(r.Commit) {
		return fmt.Errorf("commit %q: want all 40 digits", r.Commit)
	}
	if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
		return fmt.Errorf("date: %w", err)
	}
	if r.Result == "" || !oneLine.MatchString(r.Result) {
		return fmt.Errorf("result %q: want one line", r.Result)
	}
	return nil
}

// save writes the rows of a clone.
func (f *File) save(clone string) error {
	var text bytes.Buffer
	text.WriteString(header)
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(f), encoder.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(clone, FileName), text.Bytes(), 0o644) //nolint:gosec // documentation is for everybody
}

// Run returns the row with a name.
func (f *File) Run(name string) (*Run, error) {
	i := slices.IndexFunc(f.Runs, func(r Run) bool { return r.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s has no run %q", FileName, name)
	}
	return &f.Runs[i], nil
}
