// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command peer behaves like an inference server of several pods. The leader, which has index 0, is healthy once all pods of its gang have
// sent it data. The others look up the address of the leader by its name, send data, check what it answers, and are healthy while it
// does. They end when they have lost it.
//
// It serves its observations at /state. Variables: SIZE is the number of pods, DRAIN the time from SIGTERM to its exit (forever: until
// SIGKILL), EXIT the exit code after SIGTERM, EAT the memory to fill in MiB, SICK makes it unhealthy.
package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// state is what a pod has seen, as JSON at /state.
type state struct {
	mu sync.Mutex
	// Leader is the name of the leader, Index this pod's.
	Leader string `json:"leader"`
	Index  string `json:"index"`
	// Pods have sent data to this leader, by index: their addresses.
	Pods map[string]string `json:"pods,omitempty"`
	// Lookups are the different answers to the leader's name, in order.
	Lookups []lookup `json:"lookups,omitempty"`
	// Healthy: all pods have been heard, or the leader has answered the last call.
	Healthy bool `json:"healthy"`
	// Exchanges counts the answers that were right.
	Exchanges int `json:"exchanges"`
	// GPUs are the devices of the container.
	GPUs string `json:"gpus,omitempty"`
	size int
}

// lookup is an answer of the DNS server, and when it was first given, in seconds after the start.
type lookup struct {
	After   float64 `json:"after"`
	Address string  `json:"address,omitempty"`
	Error   string  `json:"error,omitempty"`
}

func main() {
	size, err := strconv.Atoi(os.Getenv("SIZE"))
	if err != nil {
		size = 1
	}
	s := &state{
		Leader: os.Getenv("TRELLIS_LEADER_ADDRESS"), Index: os.Getenv("TRELLIS_POD_INDEX"), GPUs: os.Getenv("NVIDIA_VISIBLE_DEVICES"),
		Pods: map[string]string{}, size: size, Healthy: size == 1,
	}
	handler := http.NewServeMux()
	handler.HandleFunc("POST /join", s.join)
	handler.HandleFunc("/live", func(http.ResponseWriter, *http.Request) {})
	handler.HandleFunc("/health", s.health)
	handler.HandleFunc("/state", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s)
	})
	for _, address := range []string{":8000", ":9090"} {
		go func() { panic(http.ListenAndServe(address, handler)) }() //nolint:gosec // its callers are pods of a test
	}
	if mebibytes, err := strconv.Atoi(os.Getenv("EAT")); err == nil {
		eat(mebibytes)
	}
	if size > 1 && s.Index != "0" {
		go s.follow()
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	if os.Getenv("DRAIN") == "forever" {
		select {}
	}
	if d, err := time.ParseDuration(os.Getenv("DRAIN")); err == nil {
		<-time.After(d)
	}
	code, _ := strconv.Atoi(os.Getenv("EXIT"))
	os.Exit(code)
}

func (s *state) health(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Healthy || os.Getenv("SICK") != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// eaten keeps memory that was filled.
var eaten [][]byte

func eat(mebibytes int) {
	for range mebibytes {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		eaten = append(eaten, block)
	}
}
