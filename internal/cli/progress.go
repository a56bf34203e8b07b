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

// What takes longer than patience is shown to be under way, and again every tick.
const (
	patience = time.Second
	tick     = 250 * time.Millisecond
)

// During runs work, and says on the terminal what takes so long when that is more than a second.
func (o *Output) During(doing string, work func() error) error { return During(o.ErrOut, doing, work) }

// During runs work, and says on a terminal what takes so long when that is more than a second. It says nothing where out is no terminal.
func During(out io.Writer, doing string, work func() error) error {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // a file descriptor is small
		return work()
	}
	return during(f, doing, work)
}

// during writes one line over and over, and takes it away in the end.
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
