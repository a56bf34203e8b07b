// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package progress shows a user how far long work is: with a progress bar on a terminal, with occasional lines elsewhere.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Event is a progress report. With a Total, Done counts the finished parts of the work that Text names; otherwise Text is a sentence.
type Event struct {
	Text        string
	Done, Total int
}

// Func receives events. Calls are not concurrent.
type Func func(Event)

// Discard ignores events.
func Discard(Event) {}

// Tell reports an event.
func (f Func) Tell(e Event) {
	if f != nil {
		f(e)
	}
}

// Say reports a sentence.
func (f Func) Say(format string, args ...any) { f.Tell(Event{Text: fmt.Sprintf(format, args...)}) }

// Count reports how many parts of a work are done.
func (f Func) Count(text string, done, total int) {
	f.Tell(Event{Text: text, Done: done, Total: total})
}

// Plain output repeats a count after this increase or time, and never more often than every leastStep.
const (
	percentStep = 5
	timeStep    = 15 * time.Second
	leastStep   = time.Second
)

// To writes events to a file, with a progress bar if the file is a terminal.
func To(f *os.File) Func {
	if term.IsTerminal(int(f.Fd())) { //nolint:gosec // a file descriptor is small
		return (&bars{w: f}).report
	}
	return Lines(f, time.Now)
}

// Lines writes events as plain lines.
func Lines(w io.Writer, now func() time.Time) Func {
	return (&lines{w: w, now: now}).report
}

type lines struct {
	mu      sync.Mutex
	w       io.Writer
	now     func() time.Time
	text    string
	said    time.Time // when the fields below were printed
	done    int
	percent int
}

func (l *lines) report(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Total == 0 {
		fmt.Fprintln(l.w, e.Text)
		return
	}
	percent, now := 100*e.Done/e.Total, l.now()
	if e.Text != l.text { // new work: print its first line only when there is progress
		l.text, l.done, l.percent, l.said = e.Text, 0, 0, now
	}
	since := now.Sub(l.said)
	finished := percent == 100 && l.percent != 100
	if !finished && (since < leastStep || e.Done == l.done || percent < l.percent+percentStep && since < timeStep) {
		return
	}
	l.done, l.percent, l.said = e.Done, percent, now
	fmt.Fprintf(l.w, "%s: %d of %d (%d %%)\n", e.Text, e.Done, e.Total, percent)
}

type bars struct {
	mu   sync.Mutex
	w    io.Writer
	text string
	bar  *progressbar.ProgressBar
}

func (b *bars) report(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Total == 0 || e.Text != b.text {
		b.end()
	}
	if e.Total == 0 {
		fmt.Fprintln(b.w, e.Text)
		return
	}
	if b.bar == nil {
		b.text = e.Text
		b.bar = progressbar.NewOptions(e.Total, progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(e.Text),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond))
	}
	_ = b.bar.Set(e.Done) // a closed terminal must not stop the work
	if e.Done >= e.Total {
		b.end()
	}
}

func (b *bars) end() {
	if b.bar != nil {
		_ = b.bar.Exit()
		fmt.Fprintln(b.w)
	}
	b.text, b.bar = "", nil
}
