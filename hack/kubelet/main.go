// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command kubelet is a Kubernetes node in one file, for the real nodes of the sandbox. The executable's name selects the program:
//
//   - kubelet
//   - node-init: the first process of a node, in its own mount, PID, network, UTS and IPC namespaces. It makes the node's file system,
//     cgroups and network, and starts containerd, a device plugin and the kubelet.
//   - node-switch: the network between the nodes, in its own network namespace, and the paths between it and the machine
//   - node-link: disconnects a node from that network, and reconnects it
//   - gpu-plugin: a device plugin with GPUs that exist only by name
//
// All interfaces, addresses and routes are in these namespaces, and so are the kernel settings that a kubelet writes: the machine's own
// stay unchanged. The namespaces end with their processes. Cgroups and files remain, and the sandbox removes them.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var programs = map[string]func() error{
	"kubelet":     runKubelet,
	"node-init":   runNode,
	"node-switch": runSwitch,
	"node-link":   runLink,
	"gpu-plugin":  runGPUs,
}

// Namespaces belong to threads: functions that change the namespaces of the first thread need it locked.
func init() { runtime.LockOSThread() }

func main() {
	name := filepath.Base(os.Args[0])
	run, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: start this program through a link with one of these names: %s\n", name,
			strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func runKubelet() error {
	runtime.UnlockOSThread()
	os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	return nil
}

// parse parses the command line with the flags that define adds.
func parse(define func(*flag.FlagSet)) error {
	flags := flag.NewFlagSet(os.Args[0], flag.ContinueOnError)
	define(flags)
	return flags.Parse(os.Args[1:])
}
