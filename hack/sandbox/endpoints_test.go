// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"io"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answering listens and answers every connection with its name.
func answering(t *testing.T, name string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(caller, name)
			caller.Close()
		}
	}()
	return listener.Addr().String()
}

// Connections go to the ready addresses in turn, and end without an answer while there is none.
func TestEndpoints(t *testing.T) {
	a, b := answering(t, "a"), answering(t, "b")
	e, err := NewEndpoints(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	answers := func(calls int) (out string) {
		for range calls {
			caller, err := net.Dial("tcp", e.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(caller) // a connection that is closed at once may be reset
			caller.Close()
			out += "<" + string(answer) + ">"
		}
		return out
	}
	var got []string
	look := func() { got = append(got, answers(2)) }
	look()
	e.Add(b)
	e.Add(b)
	look()
	if !e.Remove(a) || e.Remove(a) {
		t.Error("an address is removed once")
	}
	look()
	e.Remove(b)
	look()
	if diff := cmp.Diff([]string{"<a><a>", "<b><a>", "<b><b>", "<><>"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
