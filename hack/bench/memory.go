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
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/kueue"
	"github.com/trellis-k8s/trellis/hack/bench/ours"
)

// memoryChild is the first argument of a process that holds one tree and ends; what it needed at most is its parent's figure.
const memoryChild = "hold-tree"

// content of a tree.
type content struct {
	Side        string
	Nodes, Pods int
}

func (c content) shape() hall.Shape {
	return hall.Shape{Hosts: c.Nodes, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 10}
}

func (c content) pod(i int) *corev1.Pod {
	return hall.Pod(fmt.Sprintf("12345678-1234-1234-1234-%012d", i), 1+i%2, hall.HostName(i%c.Nodes))
}

// memory: the most that a process which holds the tree has ever had resident, everything included.
func memory(_ context.Context, s sizes, r *report) error {
	our, err := peakOf(content{"ours", s.memoryNodes, s.memoryPods})
	if err != nil {
		return err
	}
	peer, err := peakOf(content{"kueue", s.memoryNodes, s.memoryPods})
	if err != nil {
		return err
	}
	r.ceiling(fmt.Sprintf("tree of %s nodes and %s pods, peak resident", number(float64(s.memoryNodes)), number(float64(s.memoryPods))),
		"MB", our, peer, kueue.Name+"'s", 400)
	return nil
}

// peakOf returns the peak resident size of a child in megabytes.
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
	if err := child.Run(); err != nil {
		return 0, fmt.Errorf("holding the tree of %s: %w", c.Side, err)
	}
	usage, ok := child.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errors.New("this system does not tell the memory of a process")
	}
	bytes := float64(usage.Maxrss)
	if runtime.GOOS != "darwin" { // which counts bytes; others count kilobytes
		bytes *= 1024
	}
	return bytes / 1e6, nil
}

// holdTree is what the child does. Objects come and go one by one, as from a watch, and one gang of each of two shapes is placed.
func holdTree(argument string) error {
	var c content
	if err := json.Unmarshal([]byte(argument), &c); err != nil {
		return err
	}
	if c.Side == "kueue" {
		return holdPeer(c)
	}
	p := ours.New(nil, nil)
	for i := range c.Nodes {
		p.Cluster.SetNode(c.shape().Node(i))
	}
	for i := range c.Pods {
		p.Cluster.SetPod(c.pod(i))
	}
	for _, gpus := range []int{2, 4} {
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
	for _, gpus := range []int{2, 4} {
		a := gangOf8(fmt.Sprintf("gang-%d", gpus))
		a.GPUs = gpus
		if _, err := snapshot.Place(a); err != nil {
			return err
		}
	}
	runtime.KeepAlive(cache)
	return nil
}
