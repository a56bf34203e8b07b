// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// settings are kernel settings that a kubelet writes, and that all nodes and the machine share. The kubelet of a node sees files instead.
var settings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// skeleton are the folders of a node's file system that belong to the node.
var skeleton = []string{
	"conf", "dev", "etc", "images", "logs", "proc", "programs", "run", "settings", "sys", "tmp", "usr",
	"var/lib/cni", "var/lib/containerd", "var/lib/images", "var/lib/kubelet", "var/log/containers", "var/log/pods", "var/tmp",
}

// mount is a mount below the root of a node.
type mount struct {
	source, target, kind string
	flags                uintptr
}

// separateMounts moves this process into private mounts, and makes /proc show the processes of its PID namespace.
func separateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separating mounts: %w", err)
	}
	return unix.Mount("proc", "/proc", "proc", 0, "")
}

// enterRoot makes a file system from read-only folders of the machine and folders of the node, and makes it the root.
func (n *node) enterRoot() error {
	root := filepath.Join(n.dir, "root")
	for _, dir := range skeleton {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil { //nolint:gosec // processes of pods need access
			return err
		}
	}
	mounts := []mount{
		{root, "", "", unix.MS_BIND},
		{"/usr", "usr", "", unix.MS_BIND | unix.MS_REC},
		{"/etc", "etc", "", unix.MS_BIND | unix.MS_REC},
		{"/dev", "dev", "", unix.MS_BIND | unix.MS_REC},
		{n.programs, "programs", "", unix.MS_BIND},
		{n.images, "images", "", unix.MS_BIND},
		{n.logs, "logs", "", unix.MS_BIND},
		{"sysfs", "sys", "sysfs", 0},
		{"/sys/fs/cgroup", "sys/fs/cgroup", "", unix.MS_BIND | unix.MS_REC},
		{"proc", "proc", "proc", 0},
		{"tmpfs", "run", "tmpfs", 0}, // empty after a reboot
		{"tmpfs", "tmp", "tmpfs", 0},
	}
	merged, err := binFolders(root)
	if err != nil {
		return err
	}
	for name, value := range settings {
		file := filepath.Join(root, "settings", filepath.Base(name))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			return err
		}
		merged = append(merged, mount{file, "proc/sys/" + name, "", unix.MS_BIND})
	}
	for _, m := range append(mounts, merged...) {
		if err := unix.Mount(m.source, filepath.Join(root, m.target), m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s at /%s: %w", m.source, m.target, err)
		}
	}
	for _, dir := range []string{"usr", "etc", "programs", "images"} {
		if err := unix.Mount("", filepath.Join(root, dir), "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("keeping /%s from being written to: %w", dir, err)
		}
	}
	return n.pivot(root)
}

// binFolders recreates the machine's links to folders below /usr for programs and libraries, and returns mounts for folders that are no
// links.
func binFolders(root string) ([]mount, error) {
	var mounts []mount
	for _, dir := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		info, err := os.Lstat("/" + dir)
		if err != nil {
			continue
		}
		if info.Mode()&os.ModeSymlink == 0 {
			mounts = append(mounts, mount{"/" + dir, dir, "", unix.MS_BIND | unix.MS_REC})
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil { //nolint:gosec // processes of pods need access
				return nil, err
			}
			continue
		}
		target, err := os.Readlink("/" + dir)
		if err != nil {
			return nil, err
		}
		if err := os.Symlink(target, filepath.Join(root, dir)); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return mounts, nil
}

func (n *node) pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the machine's file system: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// The kubelet's mounts propagate to containers, and mounts of some containers to the kubelet.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts with containers: %w", err)
	}
	return unix.Sethostname([]byte(n.name))
}
