// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// meeting is the address at which the pods of an engine meet.
type meeting struct {
	host, port, index string
	size              int
	// ray means that the pods meet at the head of a Ray cluster, which runs in this pod.
	ray bool
}

// engine simulates an engine in Python: it imports its modules, and then waits for all its ranks. The leader listens and waits; the others
// call it until it answers, like the stores of PyTorch and the sockets of ZeroMQ.
func engine(args []string) error {
	m, err := meetingIn(args)
	if err != nil {
		return err
	}
	fmt.Printf("meets at %+v\n", m)
	<-time.After(durationOf("IMPORT", 2*time.Second))
	s := newState(m.host, m.port, m.index, m.size)
	switch {
	case m.ray:
		s.serve(statePort)
		go s.watchHead()
	case m.index == "0":
		s.serve(statePort, m.port)
	default:
		s.serve(statePort)
		go s.follow()
	}
	awaitEnd()
	return nil
}

// meetingIn reads the flags that the operator adds to the command of a gang.
func meetingIn(args []string) (meeting, error) {
	number := func(name string) int {
		n, err := strconv.Atoi(valueOf(args, name))
		if err != nil {
			return 0
		}
		return n
	}
	switch {
	case valueOf(args, "--master-addr") != "": // vLLM's own processes
		return meeting{host: valueOf(args, "--master-addr"), port: valueOf(args, "--master-port"), index: valueOf(args, "--node-rank"),
			size: number("--nnodes")}, nil
	case valueOf(args, "--dist-init-addr") != "": // SGLang
		host, port, err := net.SplitHostPort(valueOf(args, "--dist-init-addr"))
		return meeting{host: host, port: port, index: valueOf(args, "--node-rank"), size: number("--nnodes")}, err
	case valueOf(args, "--data-parallel-address") != "" && number("--data-parallel-size-local") > 0: // hybrid data parallelism of vLLM
		local := number("--data-parallel-size-local")
		return meeting{host: valueOf(args, "--data-parallel-address"), port: valueOf(args, "--data-parallel-rpc-port"),
			index: strconv.Itoa(number("--data-parallel-start-rank") / local), size: number("--data-parallel-size") / local}, nil
	case valueOf(args, "--distributed-executor-backend") == "ray", slices.Contains(args, "--enable-elastic-ep"):
		return meeting{port: rayPort, index: "0", size: sizeOr(1), ray: true}, nil
	}
	return meeting{}, fmt.Errorf("%q say nothing of other pods", args)
}

// valueOf returns the value of a flag; "" without one.
func valueOf(args []string, name string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
		if arg == name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// watchHead makes this pod healthy while the head of its Ray cluster has all nodes. It exits if there is no head.
func (s *state) watchHead() {
	for ; ; <-time.After(interval) {
		head, err := readState(net.JoinHostPort("127.0.0.1", rayPort))
		if err != nil {
			fmt.Println("there is no Ray cluster:", err)
			os.Exit(1)
		}
		s.mu.Lock()
		s.Pods, s.Exchanges, s.Healthy = head.Pods, head.Exchanges, head.Healthy
		s.mu.Unlock()
	}
}

func readState(address string) (*state, error) {
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/state")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	s := &state{}
	return s, json.NewDecoder(response.Body).Decode(s)
}
