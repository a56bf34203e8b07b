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
		columns       uint16
		noColor, kind string
		want          Page
	}{
		"80 columns":     {80, "", "xterm", Page{Columns: 80, Color: true}},
		"100 columns":    {100, "", "xterm", Page{Columns: 100, Color: true}},
		"160 columns":    {160, "", "xterm", Page{Columns: 160, Color: true}},
		"very narrow":    {20, "", "xterm", Page{Columns: narrowest, Color: true}},
		"width unknown":  {0, "", "xterm", Page{Columns: Columns, Color: true}},
		"NO_COLOR":       {80, "1", "xterm", Page{Columns: 80}},
		"a dumb one":     {80, "", "dumb", Page{Columns: 80}},
		"TERM not given": {80, "", "", Page{Columns: 80, Color: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", tc.noColor)
			t.Setenv("TERM", tc.kind)
			if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: tc.columns, Row: 24}); err != nil {
				t.Fatal(err)
			}
			if got := PageOf(tty); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
