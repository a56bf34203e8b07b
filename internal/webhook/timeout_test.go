// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const shortly = 200 * time.Millisecond

// callers serves a hook and returns how to begin a call of it: header and a part of the body.
func callers(t *testing.T, hook http.HandlerFunc) func(length int, body string) net.Conn {
	t.Helper()
	server := httptest.NewServer(within(shortly, hook))
	t.Cleanup(server.Close)
	return func(length int, body string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length, body); err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

// in returns what ended says, which it must say in good time.
func in[T any](t *testing.T, ended <-chan T) T {
	t.Helper()
	select {
	case got := <-ended:
		return got
	case <-time.After(suite.Patience()):
		t.Fatal("the hook does not end")
		panic("unreachable")
	}
}

// A caller that sends half a request keeps neither the hook nor the connection.
func TestHalfARequestEnds(t *testing.T) {
	ended := make(chan error, 1)
	call := callers(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ended <- err
	})
	conn := call(1000, "half")
	if err := in(t, ended); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading ended with %v", err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(suite.Patience())); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is kept")
	}
}

// A caller that does not take its answer keeps neither.
func TestAnswerThatNoOneTakesEnds(t *testing.T) {
	ended := make(chan error, 1)
	call := callers(t, func(w http.ResponseWriter, _ *http.Request) {
		for large := strings.Repeat("x", 1<<20); ; {
			if _, err := io.WriteString(w, large); err != nil {
				ended <- err
				return
			}
		}
	})
	call(0, "")
	if err := in(t, ended); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing ended with %v", err)
	}
}

// The bound is of one request, not of a connection on which one follows the other.
func TestConnectionOutlivesTheBound(t *testing.T) {
	call := callers(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	conn := call(4, "body")
	for until := time.Now().Add(3 * shortly); time.Now().Before(until); {
		answer := make([]byte, 1024)
		n, err := conn.Read(answer)
		if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200") {
			t.Fatalf("answer %q: %v", answer[:n], err)
		}
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"); err != nil {
			t.Fatal(err)
		}
	}
}
