// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

var errWork = errors.New("it failed")

// TestDuring: what takes a second is shown to be under way, and the line is gone in the end.
func TestDuring(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		want  string
	}{
		"short": {900 * time.Millisecond, ""},
		"long":  {1300 * time.Millisecond, "\rreading ... 1s\x1b[K\rreading ... 1s\x1b[K\r\x1b[K"},
		"longer": {
			2100 * time.Millisecond,
			"\rreading ... 1s\x1b[K\rreading ... 1s\x1b[K\rreading ... 1s\x1b[K\rreading ... 1s\x1b[K\rreading ... 2s\x1b[K\r\x1b[K",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				if err := during(&out, "reading", func() error { <-time.After(tc.takes); return errWork }); !errors.Is(err, errWork) {
					t.Errorf("error %v", err)
				}
				if out.String() != tc.want {
					t.Errorf("got %q, want %q", out.String(), tc.want)
				}
			})
		})
	}
}

// TestDuringIsForTerminals: a file of errors has no lines that are written over.
func TestDuringIsForTerminals(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	synctest.Test(t, func(t *testing.T) {
		if err := During(file, "reading", func() error { <-time.After(time.Minute); return nil }); err != nil {
			t.Error(err)
		}
	})
	if written, err := os.ReadFile(file.Name()); err != nil || len(written) > 0 {
		t.Errorf("written: %q (%v)", written, err)
	}
}
