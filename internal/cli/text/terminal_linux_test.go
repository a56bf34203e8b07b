// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trellis-k8s/trellis/test/testutil/terminal"
)

// A terminal tells its width, and is coloured unless someone minds.
func TestPageOfTerminal(t *testing.T) {
	tty, _ := terminal.Open(t)
	for name, tc := range map[string]struct {
		columns, rows uint16
		noColor, kind string
		want          Page
	}{
		"80 columns":     {80, 60, "", "xterm", Page{Columns: 80, Rows: 60, Color: true}},
		"100 columns":    {100, 60, "", "xterm", Page{Columns: 100, Rows: 60, Color: true}},
		"160 columns":    {160, 60, "", "xterm", Page{Columns: 160, Rows: 60, Color: true}},
		"very narrow":    {20, 60, "", "xterm", Page{Columns: narrowest, Rows: 60, Color: true}},
		"very low":       {80, 24, "", "xterm", Page{Columns: 80, Rows: lowest, Color: true}},
		"size unknown":   {0, 0, "", "xterm", Page{Columns: Columns, Rows: Rows, Color: true}},
		"NO_COLOR":       {80, 60, "1", "xterm", Page{Columns: 80, Rows: 60}},
		"a dumb one":     {80, 60, "", "dumb", Page{Columns: 80, Rows: 60}},
		"TERM not given": {80, 60, "", "", Page{Columns: 80, Rows: 60, Color: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", tc.noColor)
			t.Setenv("TERM", tc.kind)
			if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: tc.columns, Row: tc.rows}); err != nil {
				t.Fatal(err)
			}
			if got := PageOf(tty); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
