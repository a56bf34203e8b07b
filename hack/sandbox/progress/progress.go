// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package progress tells a waiting person how far long work has come: a bar on a terminal, a line now and then elsewhere.
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

// Event is one piece of news. With a Total it is a count of the work called Text, without one a sentence to show.
type Event struct {
	Text        string
	Done, Total int
}

// Func receives the news. Calls come one at a time.
type Func func(Event)

// Discard tells no one.
func Discard(Event) {}

// Tell reports an event.
func (f Func) Tell(e Event) {
	if f != nil {
		f(e)
	}
}

// Say reports a sentence.
func (f Func) Say(format string, args ...any) { f.Tell(Event{Text: fmt.Sprintf(format, args...)}) }

// Count reports how much of some work is done.
func (f Func) Count(text string, done, total int) {
	f.Tell(Event{Text: text, Done: done, Total: total})
}

// Plain output says something again after so much more work or time, and never more often than leastStep.
const (
	percentStep = 5
	timeStep    = 15 * time.Second
	leastStep   = time.Second
)

// To shows the news on a file: with a bar when it is a terminal.
func To(f *os.File) Func {
	if term.IsTerminal(int(f.Fd())) { //nolint:gosec // a file descriptor is small
		return (&bars{w: f}).report
	}
	return Lines(f, time.Now)
}

// Lines shows the news as plain lines.
func Lines(w io.Writer, now func() time.Time) Func {
	return (&lines{w: w, now: now}).report
}

type lines struct {
	mu      sync.Mutex
	w       io.Writer
	now     func() time.Time
	text    string
	said    time.Time // what follows was said then
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
	if e.Text != l.text { // new work: the first line comes when there is something to say
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
	_ = b.bar.Set(e.Done) // a terminal that has gone away is no reason to stop working
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
