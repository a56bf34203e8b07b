// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command peer behaves like an inference server of several pods. The leader, which has index 0, is healthy once all pods of its gang have
// sent it data. The others look up the address of the leader by name, send data, check the answer, and are healthy while it is right. They
// exit when they have lost the leader.
//
// Under other names it behaves like the programs of inference engines at their start, as their flags require:
//
//   - dynamo.vllm and dynamo.sglang: their ranks meet at the address in the flags, and wait for each other
//   - ray: a head in the background, or a node that exits if it finds no head
//   - trtllm-llmapi-launch: a rank of mpirun
//
// It serves its observations at /state. Variables: SIZE is the number of pods, DRAIN the time from SIGTERM to its exit (forever: until
// SIGKILL), EXIT the exit code after SIGTERM, EAT the memory to fill in MiB, SICK makes it unhealthy, READY is the time from the last pod
// to healthy, and IMPORT the time to load the modules.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// programs maps names of the executable to programs; any other name is a plain peer.
var programs = map[string]func(args []string) error{
	"dynamo.vllm":          engine,
	"dynamo.sglang":        engine,
	"ray":                  ray,
	"trtllm-llmapi-launch": mpiRank,
}

func main() {
	run, known := programs[filepath.Base(os.Args[0])]
	if !known {
		run = plain
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
		os.Exit(1)
	}
}

// plain runs a peer that knows its gang only from the variables of Trellis.
func plain([]string) error {
	s := newState(os.Getenv("TRELLIS_LEADER_ADDRESS"), statePort, os.Getenv("TRELLIS_POD_INDEX"), sizeOr(1))
	s.serve(servingPort, statePort)
	<-time.After(durationOf("IMPORT", 0))
	if mebibytes, err := strconv.Atoi(os.Getenv("EAT")); err == nil {
		eat(mebibytes)
	}
	if s.size > 1 && s.Index != "0" {
		go s.follow()
	}
	awaitEnd()
	return nil
}

// awaitEnd waits for SIGTERM and then, after DRAIN, exits.
func awaitEnd() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	if os.Getenv("DRAIN") == "forever" {
		select {}
	}
	<-time.After(durationOf("DRAIN", 0))
	code, _ := strconv.Atoi(os.Getenv("EXIT"))
	os.Exit(code)
}

// sizeOr returns the number of pods of the gang, from SIZE.
func sizeOr(otherwise int) int {
	if size, err := strconv.Atoi(os.Getenv("SIZE")); err == nil {
		return size
	}
	return otherwise
}

// durationOf reads a duration from a variable.
func durationOf(variable string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(variable)); err == nil {
		return d
	}
	return otherwise
}

// eaten keeps the filled memory allocated.
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
