// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// logLines is how many lines of the operator's log the demo prints after a failure.
const logLines = 25

// operatorLog is the end of the operator's log in a short form.
func operatorLog(s *sandbox.Sandbox) string {
	file := s.LogFile(sandbox.DefaultManager)
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return tail(string(data), logLines)
}

// entry has the fields of a JSON log line that the demo prints.
type entry struct {
	Level  string `json:"level"`
	Time   string `json:"ts"`
	Msg    string `json:"msg"`
	Error  string `json:"error"`
	Logger string `json:"logger"`
	Kind   string `json:"controller"`
}

// tail returns the last lines of a JSON log. Consecutive equal lines become one line with their count; failed health probes are left out.
func tail(log string, lines int) string {
	var out []string
	last, repeated := "", 0
	for line := range strings.Lines(log) {
		said, stamp := shorten(strings.TrimSpace(line))
		switch {
		case said == "" || strings.Contains(said, "healthz check failed"):
			continue
		case said == last:
			repeated++
			out[len(out)-1] = fmt.Sprintf("%s%s (%d times)", stamp, said, repeated)
		default:
			last, repeated = said, 1
			out = append(out, stamp+said)
		}
	}
	return strings.Join(out[max(0, len(out)-lines):], "\n")
}

// shorten splits a JSON log line into its text and its time. It returns a line that is not JSON, such as one of a panic, unchanged.
func shorten(line string) (said, stamp string) {
	e := entry{}
	if json.Unmarshal([]byte(line), &e) != nil || e.Msg == "" {
		return line, ""
	}
	said = fmt.Sprintf("%-5s %s: %s", e.Level, cmp.Or(e.Kind, e.Logger, "operator"), e.Msg)
	if e.Error != "" {
		said += ": " + e.Error
	}
	return said, e.Time + " "
}
