// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// patience is the time after which work in progress is shown. tick is the interval at which the shown line is updated.
const (
	patience = time.Second
	tick     = 250 * time.Millisecond
)

// During runs work. If work takes more than a second, During shows on the terminal what the command is doing.
func (o *Output) During(doing string, work func() error) error { return During(o.ErrOut, doing, work) }

// During runs work. If out is a terminal and work takes more than a second, During shows on out what the command is doing.
func During(out io.Writer, doing string, work func() error) error {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // a file descriptor is small
		return work()
	}
	return during(f, doing, work)
}

// during updates one line repeatedly while work runs, and then removes the line.
func during(out io.Writer, doing string, work func() error) error {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		start, timer := time.Now(), time.NewTimer(patience)
		defer timer.Stop()
		for shown := false; ; shown = true {
			select {
			case <-stop:
				if shown {
					fmt.Fprint(out, "\r\x1b[K")
				}
				return
			case <-timer.C:
				fmt.Fprintf(out, "\r%s ... %ds\x1b[K", doing, int(time.Since(start).Seconds()))
				timer.Reset(tick)
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	return work()
}
