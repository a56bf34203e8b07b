// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-k8s/trellis/hack/git"
)

// Recording is a run to record in a row.
type Recording struct {
	Clone, Name string
	// Seed of the run, for commands that do not print a seed as Ginkgo does.
	Seed string
	// Other says why this run differs from the run of the row, such as a filter of specs. Such a run is not recorded.
	Other string
	// Command is the command with its arguments.
	Command     []string
	Out, ErrOut io.Writer
	Now         func() time.Time
}

// Record runs the command and writes the row if the command succeeds. The row is for the commit that is checked out at the start. A run
// with uncommitted changes, or of a part only, is not recorded; Record writes the reason to ErrOut.
func Record(ctx context.Context, r Recording) error {
	f, err := Load(r.Clone)
	if err != nil {
		return err
	}
	row, err := f.Run(r.Name)
	if err != nil {
		return err
	}
	head, err := git.Run(ctx, r.Clone, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	why, err := r.notRecorded(ctx, *row, head)
	if err != nil {
		return err
	}
	if why != "" {
		fmt.Fprintf(r.ErrOut, "This run will not be recorded in %s: %s\n", FileName, why)
	}
	begun := r.Now()
	var said results
	cmd := exec.CommandContext(ctx, r.Command[0], r.Command[1:]...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(r.Out, &said), r.ErrOut
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s is not recorded: %w", r.Name, err)
	}
	if why != "" {
		return nil
	}
	if why, err = r.notRecorded(ctx, *row, head); err != nil || why != "" {
		return errors.Join(err, fmt.Errorf("%s passed and is not recorded: %s", r.Name, why))
	}
	now := r.Now()
	result, err := said.line(now.Sub(begun))
	if err != nil {
		return fmt.Errorf("%s is not recorded: %w", r.Name, err)
	}
	row.Commit, row.Date, row.Seed = head, now.UTC().Format(time.DateOnly), cmp.Or(r.Seed, said.seed())
	row.Failed, row.Result, row.Note = false, result, ""
	if err := errors.Join(row.check(), f.save(r.Clone), f.QuoteAll(r.Clone)); err != nil {
		return err
	}
	fmt.Fprintf(r.ErrOut, "Recorded in %s, and on the pages that quote it; commit both: %s\n", FileName, result)
	return nil
}

// notRecorded says why a run is not evidence for a commit.
func (r Recording) notRecorded(ctx context.Context, row Run, commit string) (string, error) {
	if r.Other != "" {
		return r.Other + " makes it another run than that of the row", nil
	}
	changed, err := row.uncommitted(ctx, r.Clone)
	if err != nil {
		return "", err
	}
	if len(changed) > 0 {
		return fmt.Sprintf("%s not committed, among them %s", count(len(changed), "changed file"), changed[0]), nil
	}
	row.Commit = commit
	since, err := row.Since(ctx, r.Clone, "HEAD")
	if err == nil && since.Lines > 0 {
		return "another commit was checked out meanwhile, with other code", nil
	}
	return "", err
}

// results collects the output of a command to extract its results.
type results struct{ text bytes.Buffer }

func (r *results) Write(data []byte) (int, error) { return r.text.Write(data) }

var (
	// own matches results that a command prints itself, one per line.
	own   = regexp.MustCompile(`(?m)^\s*evidence: (.+?)\s*$`)
	specs = regexp.MustCompile(`Ran (\d+) of \d+ Specs`)
	seeds = regexp.MustCompile(`Random Seed: (\d+)`)
	paint = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// line is the result in one line: the results that the command prints itself, the number of Ginkgo specs, and the duration.
func (r *results) line(took time.Duration) (string, error) {
	text := paint.ReplaceAll(r.text.Bytes(), nil)
	var parts []string
	for _, stated := range own.FindAllSubmatch(text, -1) {
		if part := string(stated[1]); !slices.Contains(parts, part) { // Ginkgo may print an entry twice
			parts = append(parts, part)
		}
	}
	ran := 0
	for _, suite := range specs.FindAllSubmatch(text, -1) {
		n, err := strconv.Atoi(string(suite[1]))
		if err != nil {
			return "", err
		}
		ran += n
	}
	if ran > 0 {
		parts = append(parts, count(ran, "spec")+" passed")
	}
	if len(parts) == 0 {
		return "", errors.New("it printed no result: no line \"evidence: RESULT\", and no spec ran")
	}
	return fmt.Sprintf("%s; %s", strings.Join(parts, "; "), took.Round(time.Second)), nil
}

func (r *results) seed() string {
	if found := seeds.FindSubmatch(paint.ReplaceAll(r.text.Bytes(), nil)); found != nil {
		return string(found[1])
	}
	return ""
}
