// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPageTable(t *testing.T) {
	rows := [][]string{{"NAME", "WHY"}, {"a", words(12)}, {"bb"}, {"c", "short"}}
	for name, tc := range map[string]struct {
		page Page
		want string
	}{
		"broken":   {Page{Columns: 30}, "NAME  WHY\na     " + words(5) + "\n      " + words(5) + "\n      " + words(2) + "\nbb\nc     short\n"},
		"wide":     {Page{Columns: 30, Wide: true}, "NAME  WHY\na     " + words(12) + "\nbb\nc     short\n"},
		"no space": {Page{Columns: 16}, "NAME  WHY\n" + strings.Replace(strings.Repeat("      word word\n", 6), "      ", "a     ", 1) + "bb\nc     short\n"},
		"usual":    {Page{}, "NAME  WHY\na     " + words(12) + "\nbb\nc     short\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.page.Table(rows)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The widest columns are broken first, none to less than its longest word, and the first one never.
func TestPageTableBreaksManyColumns(t *testing.T) {
	page := Page{Columns: 60}
	rows := [][]string{{"SERVICE", "READY", "WHERE", "WAITING FOR"}, {
		"a service", "1/3", "zone-a/rack-1 (2), zone-a/rack-2, zone-a/rack-3, 7 more", "2 replicas to start: ImagePullBackOff (llm-decode-1-1)",
	}, {"b", "1/1", "zone-a", ""}}
	want := `SERVICE    READY  WHERE               WAITING FOR
a service    1/3  zone-a/rack-1 (2),  2 replicas to start:
                  zone-a/rack-2,      ImagePullBackOff
                  zone-a/rack-3, 7    (llm-decode-1-1)
                  more
b            1/1  zone-a
`
	if diff := cmp.Diff(want, page.Table(rows, 1)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	names := [][]string{{"A", "B"}, {strings.Repeat("x", 50), strings.Repeat("y", 50)}}
	if got := page.Table(names); !strings.Contains(got, names[1][0]+"  "+names[1][1]) {
		t.Errorf("names are broken:\n%s", got)
	}
}

// Colours take no place: columns stand where they stand without.
func TestPageColors(t *testing.T) {
	page := Page{Columns: 40, Color: true}
	got := page.Table([][]string{{"STATE", "OF"}, {page.Good("fine"), "a"}, {page.Bad("not ready"), "b"}, {page.Warn(""), "c"}})
	want := "\x1b[1mSTATE      OF\x1b[0m\n\x1b[32mfine\x1b[0m       a\n\x1b[31mnot ready\x1b[0m  b\n           c\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := (Page{}).Good("fine"); got != "fine" {
		t.Errorf("without colours: %q", got)
	}
	long := page.Warn(words(8))
	if got := page.Wrap(long, ""); got != long {
		t.Errorf("39 columns and colours are broken: %q", got)
	}
}

func TestPageOfNoTerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, out := range []any{&bytes.Buffer{}, &strings.Builder{}, file} {
		if got := PageOf(out); got != (Page{Columns: Columns, Rows: Rows}) {
			t.Errorf("%T: %+v", out, got)
		}
	}
}
