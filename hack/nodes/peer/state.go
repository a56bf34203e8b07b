// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// servingPort is the port of frontends, statePort the port of workers' health and of /state.
	servingPort = "8000"
	statePort   = "9090"
)

// state is what a pod has observed, served as JSON at /state.
type state struct {
	mu sync.Mutex
	// Leader is the name of the leader, Index this pod's.
	Leader string `json:"leader"`
	Index  string `json:"index"`
	// Pods are the addresses of the pods that have sent data to this leader, by index.
	Pods map[string]string `json:"pods,omitempty"`
	// Lookups are the successive answers to lookups of the leader's name.
	Lookups []lookup `json:"lookups,omitempty"`
	// Healthy means that all pods have sent data, or that the leader has answered the last call.
	Healthy bool `json:"healthy"`
	// Exchanges counts the correct answers.
	Exchanges int `json:"exchanges"`
	// GPUs are the devices of the container.
	GPUs string `json:"gpus,omitempty"`

	// port of the leader at which the pods meet.
	port string
	size int
	// readyAt is when a leader with data of all pods becomes healthy.
	readyAt time.Time
}

// lookup is an answer of the DNS server, and when it was first given, in seconds after the start.
type lookup struct {
	After   float64 `json:"after"`
	Address string  `json:"address,omitempty"`
	Error   string  `json:"error,omitempty"`
}

func newState(leader, port, index string, size int) *state {
	s := &state{Leader: leader, Index: index, GPUs: os.Getenv("NVIDIA_VISIBLE_DEVICES"), Pods: map[string]string{}, port: port, size: size}
	if size == 1 {
		s.complete()
	}
	return s
}

// complete records that all pods have sent data. The pod is healthy READY later.
func (s *state) complete() {
	s.Healthy = true
	if s.readyAt.IsZero() {
		s.readyAt = time.Now().Add(durationOf("READY", 0))
	}
}

// serve listens on the ports at all addresses.
func (s *state) serve(ports ...string) {
	handler := http.NewServeMux()
	handler.HandleFunc("POST /join", s.join)
	handler.HandleFunc("/live", func(http.ResponseWriter, *http.Request) {})
	handler.HandleFunc("/health", s.health)
	handler.HandleFunc("/state", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s)
	})
	for _, port := range ports {
		go func() { panic(http.ListenAndServe(":"+port, handler)) }() //nolint:gosec // its callers are pods of a test
	}
}

func (s *state) health(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Healthy || time.Now().Before(s.readyAt) || os.Getenv("SICK") != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// join receives a pod's data, and answers with its checksum.
func (s *state) join(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.Pods[r.URL.Query().Get("index")], _, _ = net.SplitHostPort(r.RemoteAddr)
	if len(s.Pods) >= s.size-1 {
		s.complete()
	}
	s.Exchanges++
	s.mu.Unlock()
	fmt.Fprint(w, sum(data))
}
