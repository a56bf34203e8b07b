// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Server serves the newest map to any number of browsers on this machine, and pushes changes to them.
type Server struct {
	mu      sync.Mutex
	newest  *Map
	data    []byte        // newest as JSON
	changed chan struct{} // closed when there is a newer one
}

// NewServer returns a server without a map until Put is called.
func NewServer() *Server { return &Server{changed: make(chan struct{})} }

// Put sets the newest map. It pushes the map to browsers only if a field other than Taken has changed.
func (s *Server) Put(m *Map) error {
	m.Live = true
	taken := m.Taken
	m.Taken = nil
	same, err := json.Marshal(m)
	if err != nil {
		return err
	}
	m.Taken = taken
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = m
	if !bytes.Equal(same, s.data) {
		s.data = same
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return nil
}

func (s *Server) now() (*Map, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest, s.changed
}

// Handler serves the page and its changes. It accepts only requests to host names of this machine. So a foreign page cannot read the
// cluster through a DNS name that resolves to this machine.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /events", s.events)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) {
			http.Error(w, "this page is for this machine only: use localhost", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == "::1"
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	m, _ := s.now()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = m.HTML(w) // it fails only if the browser has closed the connection
}

// events pushes the current map and then newer maps. If maps arrive faster than the browser reads them, it pushes only the newest map.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for {
		m, changed := s.now()
		data, err := json.Marshal(m)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// listen serves until the context ends. It writes its address to out.
func (s *Server) listen(ctx context.Context, port int, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The map is at http://%s/ and follows the cluster; Ctrl-C ends it.\n", listener.Addr())
	srv := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
