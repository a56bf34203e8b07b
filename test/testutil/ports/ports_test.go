// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"net"
	"testing"
)

func TestFreePort(t *testing.T) {
	taken := map[string]int{}
	for i := range 50 {
		port, err := Free(taken)
		if err != nil {
			t.Fatal(err)
		}
		for name, other := range taken {
			if port == other {
				t.Errorf("port %d of %s was given out again", port, name)
			}
		}
		taken[string(rune('a'+i))] = port
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if IsFree(l.Addr().(*net.TCPAddr).Port) {
		t.Error("a port in use counts as free")
	}
}
