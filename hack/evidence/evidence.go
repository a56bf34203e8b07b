// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence keeps the results of runs that take too long for every commit: faults, soak, peers, benchmarks. docs/evidence.yaml has
// a row for each, with the commit that it ran on. A row is evidence of that commit alone: it is current while nothing has changed since in
// the packages that it is about, nor in the checks that it consists of.
//
// make evidence lists the rows with what has changed since, the long targets of make write them, pages quote them, and a full release is
// refused while one is missing, failed or no longer current.
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

// FileName is the file with the rows, in a clone.
const FileName = "docs/evidence.yaml"

const header = `# The last run of each check that takes too long for every commit. The targets of make write the results, and make evidence
# lists them. What a row covers and checks is written by hand: docs/dev/development.md#evidence.
`

// Required are the runs that a full release needs.
var Required = []string{"faults", "soak", "peers", "kueue", "karpenter", "versions", "upgrade", "bench"}

// File is docs/evidence.yaml.
type File struct {
	Runs []Run `yaml:"runs"`
}

// Run is one row: what is run, what it is about, and its last result.
type Run struct {
	Name string `yaml:"name"`
	// Command is how to run it.
	Command string `yaml:"command"`
	// Covers are the folders of the code that the run is about, without its Go tests and testdata; those that begin with ! are left out.
	Covers []string `yaml:"covers,flow"`
	// Checks are the pathspecs of what the run consists of.
	Checks []string `yaml:"checks,flow"`

	// Commit is that of the clone when the run began, in full. It is empty if no run is known by its commit.
	Commit string `yaml:"commit,omitempty"`
	// Date is the day on which the run ended, in UTC.
	Date string `yaml:"date,omitempty"`
	// Seed repeats the order of what the run did.
	Seed string `yaml:"seed,omitempty"`
	// Failed is set for a run that did not pass. Targets of make write only those that did.
	Failed bool `yaml:"failed,omitempty"`
	// Result is one line.
	Result string `yaml:"result,omitempty"`
	// Note says what else a reader has to know, such as that a row was written by hand.
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

// check refuses a row that says half of what a result needs.
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

// Run returns the row of a name.
func (f *File) Run(name string) (*Run, error) {
	i := slices.IndexFunc(f.Runs, func(r Run) bool { return r.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s has no run %q", FileName, name)
	}
	return &f.Runs[i], nil
}
