// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const bound = 30 * time.Second

// pipes is a listener whose connections are pipes, which a bubble can wait for.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// callers serves a hook, in a bubble, and returns how to begin a call of it: header and a part of the body.
func callers(t *testing.T, hook http.HandlerFunc) func(length int, body string) net.Conn {
	t.Helper()
	listener, server := make(pipes), &http.Server{Handler: within(bound, hook), ReadHeaderTimeout: time.Hour}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { close(listener); _ = server.Close() })
	return func(length int, body string) net.Conn {
		t.Helper()
		conn, served := net.Pipe()
		t.Cleanup(func() { _ = conn.Close() })
		listener <- served
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length, body); err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

// A caller that sends half a request keeps neither the hook nor the connection.
func TestHalfARequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, ended := time.Now(), make(chan error, 1)
		call := callers(t, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			ended <- err
		})
		conn := call(1000, "half")
		if err := conn.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != bound {
			t.Errorf("reading ended after %s with %v", time.Since(begun), err)
		}
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection is kept")
		}
	})
}

// A caller that does not take its answer keeps neither.
func TestAnswerThatNoOneTakesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, ended := time.Now(), make(chan error, 1)
		call := callers(t, func(w http.ResponseWriter, _ *http.Request) {
			for large := strings.Repeat("x", 1<<20); ; {
				if _, err := io.WriteString(w, large); err != nil {
					ended <- err
					return
				}
			}
		})
		call(0, "")
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != bound {
			t.Errorf("writing ended after %s with %v", time.Since(begun), err)
		}
	})
}

// The bound is of one request, not of a connection on which one follows the other.
func TestConnectionOutlivesTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := callers(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		conn := call(4, "body")
		for until := time.Now().Add(3 * bound); time.Now().Before(until); {
			answer := make([]byte, 1024)
			n, err := conn.Read(answer)
			if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200") {
				t.Fatalf("answer %q: %v", answer[:n], err)
			}
			<-time.After(bound / 2)
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
