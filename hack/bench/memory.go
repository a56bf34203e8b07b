// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/kueue"
	"github.com/trellis-k8s/trellis/hack/bench/ours"
)

// memoryChild is the first argument of a child process that builds one tree and prints its peak memory.
const memoryChild = "hold-tree"

// content is the content of a tree.
type content struct {
	Side        string
	Nodes, Pods int
	Claims      int
	// Gangs are the GPUs per pod of the gangs to place.
	Gangs []int
}

func (c content) shape() hall.Shape {
	return hall.Shape{Hosts: c.Nodes, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 10}
}

func (c content) pod(i int) *corev1.Pod {
	return hall.Pod(fmt.Sprintf("12345678-1234-1234-1234-%012d", i), 1+i%2, hall.HostName(i%c.Nodes))
}

// memory measures the peak resident memory of a process with the tree.
func memory(_ context.Context, s sizes, r *report) error {
	our, err := peakOf(content{Side: "ours", Nodes: s.memoryNodes, Pods: s.memoryPods, Gangs: []int{2, 4}})
	if err != nil {
		return err
	}
	peer, err := peakOf(content{Side: "kueue", Nodes: s.memoryNodes, Pods: s.memoryPods, Gangs: []int{2, 4}})
	if err != nil {
		return err
	}
	r.ceiling(fmt.Sprintf("tree of %s nodes and %s pods, peak resident", number(float64(s.memoryNodes)), number(float64(s.memoryPods))),
		"MB", our, peer, kueue.Name+"'s", 400)
	return deviceMemory(s, r)
}

// deviceMemory measures the same with the devices of each node and claims of them, against the tree without.
func deviceMemory(s sizes, r *report) error {
	with, err := peakOf(content{Side: "devices", Nodes: s.deviceNodes, Pods: s.memoryClaims, Claims: s.memoryClaims})
	if err != nil {
		return err
	}
	bare, err := peakOf(content{Side: "ours", Nodes: s.deviceNodes, Pods: s.memoryClaims, Gangs: []int{1, 2}})
	if err != nil {
		return err
	}
	r.compare(fmt.Sprintf("tree of %s nodes, %s devices, %s claims and pods, peak resident", number(float64(s.deviceNodes)),
		number(float64(s.deviceNodes*devicesPerHost)), number(float64(s.memoryClaims))), "MB", with, bare, bareKind)
	return nil
}

// peakOf returns the peak resident memory of a child in megabytes. The child reports it itself, because the kernel's figure for the parent
// includes the parent's own size at the fork.
func peakOf(c content) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	argument, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	child := exec.Command(self, memoryChild, string(argument))
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		return 0, fmt.Errorf("holding the tree of %s: %w", c.Side, err)
	}
	bytes, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return bytes / 1e6, err
}

// peak returns the peak resident memory of this process, in bytes.
func peak() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil { // not Linux
		var usage syscall.Rusage
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		return usage.Maxrss, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kilobytes * 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}

// holdTree is the child's work: it prints its peak. Objects come and go one by one, as from a watch, and one gang of each of two shapes is
// placed.
func holdTree(argument string) error {
	var c content
	if err := json.Unmarshal([]byte(argument), &c); err != nil {
		return err
	}
	hold := holdOurs
	switch c.Side {
	case "kueue":
		hold = holdPeer
	case "devices":
		hold = holdDevices
	}
	if err := hold(c); err != nil {
		return err
	}
	bytes, err := peak()
	fmt.Println(bytes)
	return err
}

func holdOurs(c content) error {
	p := ours.New(nil, nil)
	for i := range c.Nodes {
		p.Cluster.SetNode(c.shape().Node(i))
	}
	for i := range c.Pods {
		p.Cluster.SetPod(c.pod(i))
	}
	for _, gpus := range c.Gangs {
		a := gangOf8(fmt.Sprintf("gang-%d", gpus))
		a.GPUs = gpus
		if _, err := p.Place(a); err != nil {
			return err
		}
	}
	runtime.KeepAlive(p)
	return nil
}

func holdPeer(c content) error {
	cache, err := kueue.New(nil, nil)
	if err != nil {
		return err
	}
	for i := range c.Nodes {
		cache.Node(c.shape().Node(i))
	}
	for i := range c.Pods {
		cache.Pod(c.pod(i))
	}
	snapshot, err := cache.Snapshot()
	if err != nil {
		return err
	}
	for _, gpus := range c.Gangs {
		a := gangOf8(fmt.Sprintf("gang-%d", gpus))
		a.GPUs = gpus
		if _, err := snapshot.Place(a); err != nil {
			return err
		}
	}
	runtime.KeepAlive(cache)
	return nil
}
