// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"io"
	"os"
	"strings"
)

// Tail returns the last lines of a log file, indented for use below an error message; nothing when it cannot be read.
func Tail(file string, lines int) string {
	const most = 16 << 10
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, min(info.Size(), most))
	n, err := f.ReadAt(buf, info.Size()-int64(len(buf)))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(buf[:n]), "\n"), "\n")
	all = all[max(0, len(all)-lines):]
	return "  " + strings.Join(all, "\n  ")
}
