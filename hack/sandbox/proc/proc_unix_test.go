// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package proc

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-k8s/trellis/test/testutil/patience"
)

// Files that this program inherited, such as a lock or the pipe of a waiting parent, are not open in the programs that it starts.
func TestInheritedFilesStayBehind(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := unix.FcntlInt(writer.Fd(), unix.F_SETFD, 0); err != nil { // as if our own parent had left it open
		t.Fatal(err)
	}
	p := start(t, "echo started; sleep 60")
	waitFor(t, p, "started")
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reader.SetReadDeadline(time.Now().Add(patience.Limit())); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading: %v, want the end of the pipe, which a process still holds open", err)
	}
}
