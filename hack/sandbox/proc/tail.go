// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
)

// Limits of Tail: how much of the file it reads, and the length of a line.
const (
	tailBytes = 256 << 10
	lineBytes = 400
)

// Tail returns the last lines of a log file, indented for use below an error message, or nothing if it cannot read the file. It leaves
// out lines that contain a text of without, and cuts long lines.
func Tail(file string, lines int, without ...string) string {
	end, err := readEnd(file)
	if err != nil {
		return ""
	}
	var kept []string
	for line := range strings.Lines(end) {
		if slices.ContainsFunc(without, func(text string) bool { return strings.Contains(line, text) }) {
			continue
		}
		line = strings.TrimRight(line, "\n")
		if len(line) > lineBytes {
			line = strings.ToValidUTF8(line[:lineBytes], "") + "..."
		}
		kept = append(kept, line)
	}
	if len(kept) == 0 {
		return ""
	}
	return "  " + strings.Join(kept[max(0, len(kept)-lines):], "\n  ")
}

func readEnd(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	buf := make([]byte, min(info.Size(), tailBytes))
	n, err := f.ReadAt(buf, info.Size()-int64(len(buf)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(buf[:n]), err
}
