// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// quoted matches a part of a page that quotes a row: <!-- evidence: NAME --> TEXT <!-- end of evidence -->.
var quoted = regexp.MustCompile(`(?s)<!-- evidence: ([a-z-]+) -->\n.*?<!-- end of evidence -->`)

// width is the line width of the pages.
const width = 100

// Sentence is the text with which pages quote a row.
func (r Run) Sentence() string {
	if r.Commit == "" {
		return fmt.Sprintf("No run of `%s` is recorded with its commit.", r.Command)
	}
	day, seed, verb := r.Date, "", "passed"
	if at, err := time.Parse(time.DateOnly, r.Date); err == nil {
		day = at.Format("2 January 2006")
	}
	if r.Seed != "" {
		seed = ", seed " + r.Seed
	}
	if r.Failed {
		verb = "failed"
	}
	text := fmt.Sprintf("The last recorded run of `%s` %s on %s, commit `%s`%s: %s.", r.Command, verb, day, r.Commit[:8], seed, r.Result)
	if r.Note != "" {
		text += " " + r.Note + "."
	}
	return text
}

// Quote returns a page with its quotes updated from the rows.
func (f *File) Quote(page string) (string, error) {
	var problems []error
	text := quoted.ReplaceAllStringFunc(page, func(part string) string {
		name := quoted.FindStringSubmatch(part)[1]
		run, err := f.Run(name)
		if err != nil {
			problems = append(problems, err)
			return part
		}
		return fmt.Sprintf("<!-- evidence: %s -->\n%s\n<!-- end of evidence -->", name, wrap(run.Sentence()))
	})
	return text, errors.Join(problems...)
}

func wrap(text string) string {
	var out strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > width:
			out.WriteByte('\n')
			at = 0
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += len(word)
	}
	return out.String()
}

// QuoteAll updates the pages of a clone.
func (f *File) QuoteAll(clone string) error {
	pages := []string{filepath.Join(clone, "README.md")}
	for _, folder := range []string{"docs", "docs/dev"} {
		found, err := filepath.Glob(filepath.Join(clone, folder, "*.md"))
		if err != nil {
			return err
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		text, err := f.Quote(string(raw))
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		if text == string(raw) {
			continue
		}
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil { //nolint:gosec // documentation is for everybody
			return err
		}
	}
	return nil
}
