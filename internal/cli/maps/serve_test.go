// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(t *testing.T, server *httptest.Server, path, host string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		request.Host = host
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// TestServe: the page comes with the map of now, and every change is pushed, once.
func TestServe(t *testing.T) {
	b := small(t)
	s := NewServer()
	if err := s.Put(draw(t, b.World, "")); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	page := get(t, server, "/", "")
	defer page.Body.Close()
	html, err := io.ReadAll(page.Body)
	if err != nil || !strings.Contains(string(html), `"live":true`) || !strings.Contains(string(html), "connect-src &#39;self&#39;") {
		t.Errorf("the page is not one that follows: %v", err)
	}
	events := get(t, server, "/events", "")
	defer events.Body.Close()
	lines := bufio.NewScanner(events.Body)
	lines.Buffer(nil, 1<<20)
	next := func() string {
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				return data
			}
		}
		t.Fatalf("the server said nothing more: %v", lines.Err())
		return ""
	}
	first := next()
	if err := s.Put(draw(t, b.World, "")); err != nil { // the same: nothing is pushed
		t.Fatal(err)
	}
	b.Cordon(0)
	if err := s.Put(draw(t, b.World, "")); err != nil {
		t.Fatal(err)
	}
	if second := next(); second == first || strings.Count(second, `"state":"cordoned"`) != 2 {
		t.Errorf("got %s", second)
	}
}

// TestServeThisMachineOnly: a page whose name leads here by a trick of its name server reads nothing.
func TestServeThisMachineOnly(t *testing.T) {
	s := NewServer()
	if err := s.Put(draw(t, small(t).World, "")); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	for host, want := range map[string]int{
		"localhost:80": http.StatusOK, "127.0.0.1": http.StatusOK, "[::1]:8080": http.StatusOK, "[::1]": http.StatusOK,
		"evil.example": http.StatusForbidden, "localhost.evil.example:80": http.StatusForbidden, "10.0.0.1:80": http.StatusForbidden,
	} {
		answer := get(t, server, "/", host)
		answer.Body.Close()
		if got := answer.StatusCode; got != want {
			t.Errorf("Host %s: got %d, want %d", host, got, want)
		}
	}
}
