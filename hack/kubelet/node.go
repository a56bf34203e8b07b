// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// node is the configuration of a node and its running processes.
type node struct {
	name string
	// dir is the node's folder on the machine, with its file system. Only files below var survive a restart of the node.
	dir string
	// address in the network of the nodes, with the length of its prefix; gateway is the switch, routes are NETWORK=ADDRESS pairs.
	address, gateway, routes string
	// pods is the network of the node's pods, and dns the address of their DNS server.
	pods, dns string
	switchPID int
	// programs, images and logs are folders on the machine.
	programs, images, logs string
	// cgroup is the node's cgroup, below the root of each hierarchy.
	cgroup string
	labels string
	gpus   int

	mu       sync.Mutex
	children map[int]*child
}

// child is a process that this process has started.
type child struct {
	name  string
	ended chan syscall.WaitStatus
}

// Names of the programs of a node.
const (
	containerd = "containerd"
	gpuPlugin  = "gpu-plugin"
	kubeletRun = "kubelet"
)

func runNode() error {
	n := &node{children: map[int]*child{}}
	if err := parse(func(f *flag.FlagSet) {
		f.StringVar(&n.name, "name", "", "name of the node")
		f.StringVar(&n.dir, "dir", "", "folder of the node")
		f.StringVar(&n.address, "address", "", "address, with the length of its prefix")
		f.StringVar(&n.gateway, "gateway", "", "address of the switch")
		f.StringVar(&n.routes, "routes", "", "pod networks of the other nodes: NETWORK=ADDRESS, separated by spaces")
		f.StringVar(&n.pods, "pods", "", "network of the pods")
		f.StringVar(&n.dns, "dns", "", "address of the DNS server")
		f.IntVar(&n.switchPID, "switch", 0, "process id of the switch")
		f.StringVar(&n.programs, "programs", "", "folder of the programs")
		f.StringVar(&n.images, "images", "", "folder of images to import")
		f.StringVar(&n.logs, "logs", "", "folder of logs")
		f.StringVar(&n.cgroup, "cgroup", "", "cgroup of the node")
		f.StringVar(&n.labels, "labels", "", "labels of the Node")
		f.IntVar(&n.gpus, "gpus", 0, "number of GPUs")
	}); err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return errors.New("a node is the first process of namespaces of its own: this process shares those of others")
	}
	if err := os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"); err != nil {
		return err
	}
	for _, step := range []func() error{n.connect, n.makeCgroups, n.enterRoot, n.writeConf} {
		if err := step(); err != nil {
			return err
		}
	}
	return n.serve()
}

// serve starts the programs of a node, and on SIGUSR1 restarts those that have ended. It reaps ended processes.
func (n *node) serve() error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGUSR1, syscall.SIGTERM)
	restart := make(chan struct{}, 1)
	restart <- struct{}{}
	go func() {
		for range restart {
			if err := n.start(); err != nil {
				fmt.Fprintln(os.Stderr, "node-init:", err)
			}
		}
	}()
	for s := range signals {
		switch s {
		case syscall.SIGCHLD:
			n.collect()
		case syscall.SIGUSR1:
			select {
			case restart <- struct{}{}:
			default: // a restart is pending
			}
		case syscall.SIGTERM:
			return nil // all processes of the node end with this one
		}
	}
	return nil
}

// collect reaps the processes that have ended, including orphaned ones.
func (n *node) collect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
		if c := n.children[pid]; c != nil {
			fmt.Printf("%s has ended: exit code %d, signal %d\n", c.name, status.ExitStatus(), status.Signal())
			c.ended <- status
			delete(n.children, pid)
		}
	}
}

// start starts the programs that do not run, and imports new images.
func (n *node) start() error {
	if err := n.ensure(containerd, "/usr/bin/containerd", "--config=/conf/containerd.toml"); err != nil {
		return err
	}
	if err := waitForFile("/run/containerd/containerd.sock"); err != nil {
		return err
	}
	if err := n.importImages(); err != nil {
		return err
	}
	if err := n.ensure(gpuPlugin, "/programs/gpu-plugin", "--node="+n.name, fmt.Sprintf("--count=%d", n.gpus),
		"--unhealthy=/conf/unhealthy-gpus", "--refusing=/conf/refusing-gpus"); err != nil {
		return err
	}
	return n.ensure(kubeletRun, "/programs/kubelet", "--config=/conf/kubelet.yaml", "--kubeconfig=/conf/kubeconfig",
		"--hostname-override="+n.name, "--node-ip="+n.ip(), "--node-labels="+n.labels)
}

// importImages imports each archive once, and records the import in a file with the archive's name, which survives a reboot.
func (n *node) importImages() error {
	files, err := filepath.Glob("/images/*.tar")
	if err != nil {
		return err
	}
	for _, file := range files {
		done := "/var/lib/images/" + filepath.Base(file)
		if _, err := os.Stat(done); err == nil {
			continue
		}
		ended, err := n.run("image-import", "/usr/bin/ctr", "--namespace=k8s.io", "images", "import", file)
		if err != nil {
			return err
		}
		if status := <-ended; status.ExitStatus() != 0 {
			return fmt.Errorf("importing %s failed: see the log of image-import", file)
		}
		if err := os.WriteFile(done, nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) ensure(name, path string, args ...string) error {
	n.mu.Lock()
	runs := false
	for _, c := range n.children {
		runs = runs || c.name == name
	}
	n.mu.Unlock()
	if runs {
		return nil
	}
	_, err := n.run(name, path, args...)
	return err
}

// run starts a program with its output in a log.
func (n *node) run(name, path string, args ...string) (<-chan syscall.WaitStatus, error) {
	log, err := os.OpenFile(fmt.Sprintf("/logs/%s-%s.log", n.name, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	n.mu.Lock() // until the child is recorded: it may have ended by then
	defer n.mu.Unlock()
	pid, err := syscall.ForkExec(path, slices.Concat([]string{path}, args), &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(),
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c := &child{name: name, ended: make(chan syscall.WaitStatus, 1)}
	n.children[pid] = c
	return c.ended, nil
}

func waitForFile(path string) error {
	for range 600 {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s does not appear", path)
}

// makeCgroups creates the node's cgroup in each hierarchy.
func (n *node) makeCgroups() error {
	for _, root := range hierarchies() {
		dir := filepath.Join(root, n.cgroup)
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the mode that systemd and runc use
			return fmt.Errorf("making a cgroup: %w", err)
		}
		for _, d := range []string{filepath.Dir(dir), dir} { // a cpuset without these settings admits no process
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				if value, err := os.ReadFile(filepath.Join(root, file)); err == nil {
					_ = os.WriteFile(filepath.Join(d, file), value, 0o600)
				}
			}
		}
	}
	return nil
}

// hierarchies returns the folders of the cgroup hierarchies: one of version 2, or several of version 1.
func hierarchies() []string {
	const root = "/sys/fs/cgroup"
	var fs unix.Statfs_t
	if unix.Statfs(root, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return []string{root}
	}
	var all []string
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if e.IsDir() && unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP_SUPER_MAGIC {
			all = append(all, dir)
		}
	}
	return all
}
