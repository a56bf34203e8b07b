// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

const (
	rayPort = "6379"
	// connecting is how long a node calls a head that does not answer.
	connecting = 5 * time.Second
)

// ray simulates Ray's command: "start --head" returns when a head runs in the background, "start --address" runs a node until it loses its
// head.
func ray(args []string) error {
	<-time.After(durationOf("IMPORT", 2*time.Second) / 2)
	switch {
	case slices.Contains(args, "--is-head"):
		s := newState("", rayPort, "0", sizeOr(1))
		s.serve(rayPort)
		select {}
	case slices.Contains(args, "--head"):
		return startHead()
	}
	host, port, err := net.SplitHostPort(valueOf(args, "--address"))
	if err != nil {
		return err
	}
	s := newState(host, port, os.Getenv("TRELLIS_POD_INDEX"), sizeOr(1))
	s.serve(statePort)
	for until := time.Now().Add(connecting); !s.call(); <-time.After(interval) {
		if time.Now().After(until) {
			return fmt.Errorf("no head answers at %s: %+v", host, s.Lookups)
		}
	}
	go s.follow()
	awaitEnd()
	return nil
}

// startHead starts the head as a separate process, and waits until it answers.
func startHead() error {
	head := exec.Command("/proc/self/exe", "--is-head")
	head.Args[0] = os.Args[0]
	head.Stdout, head.Stderr, head.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: true}
	if err := head.Start(); err != nil {
		return err
	}
	for until := time.Now().Add(time.Minute); time.Now().Before(until); <-time.After(interval) {
		if _, err := readState(net.JoinHostPort("127.0.0.1", rayPort)); err == nil {
			return nil
		}
	}
	return errors.New("the head does not answer")
}
