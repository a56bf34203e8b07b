// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// A text of a user's can neither end a line of the log nor act on the terminal of who reads it.
func TestLogLinesStayLines(t *testing.T) {
	const hostile = "x\n{\"level\":\"info\"}\r\x1b[2J\u2028"
	var out bytes.Buffer
	log := logger(&zap.Options{DestWriter: &out})
	log.Info(hostile, "name", hostile)
	log.Error(errors.New(hostile), hostile)
	lines := bytes.Split(bytes.TrimSuffix(out.Bytes(), []byte("\n")), []byte("\n"))
	if len(lines) != 2 {
		t.Errorf("%d lines, want 2:\n%s", len(lines), out.String())
	}
	for _, line := range lines {
		if !json.Valid(line) || bytes.ContainsAny(line, "\r\x1b") {
			t.Errorf("no line of JSON, or one that acts: %q", line)
		}
	}
}
