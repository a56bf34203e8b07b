// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	interval = 250 * time.Millisecond
	timeout  = 2 * time.Second
	// losses is the maximum number of consecutive failed calls.
	losses = 8
)

var began = time.Now()

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// follow calls the leader until the leader is lost, and exits.
func (s *state) follow() {
	for failed := 0; failed < losses || !s.met(); <-time.After(interval) {
		if s.call() {
			failed = 0
		} else {
			failed++
		}
	}
	fmt.Println("the leader is lost")
	os.Exit(1)
}

// met reports whether the leader has ever answered.
func (s *state) met() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Exchanges > 0
}

// call looks up the leader and exchanges data with it.
func (s *state) call() bool {
	addresses, err := net.LookupHost(s.Leader)
	seen := lookup{After: time.Since(began).Round(time.Millisecond).Seconds()}
	if err != nil {
		seen.Error = err.Error()
	} else {
		seen.Address = addresses[0]
	}
	right := err == nil && s.exchange(addresses[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.Lookups); n == 0 || s.Lookups[n-1].Address != seen.Address || s.Lookups[n-1].Error != seen.Error {
		s.Lookups = append(s.Lookups, seen)
		fmt.Printf("%s: %+v\n", s.Leader, seen)
	}
	s.Healthy = right
	if right {
		s.Exchanges++
	}
	return right
}

func (s *state) exchange(address string) bool {
	data := make([]byte, 4096)
	if _, err := rand.Read(data); err != nil {
		return false
	}
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Post("http://"+net.JoinHostPort(address, s.port)+"/join?index="+s.Index, "", bytes.NewReader(data))
	if err != nil {
		return false
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return err == nil && string(answer) == sum(data)
}
