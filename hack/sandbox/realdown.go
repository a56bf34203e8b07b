// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// cgroupRoot is where Linux distributions mount cgroups: one hierarchy, or a folder per hierarchy.
const cgroupRoot = "/sys/fs/cgroup"

// cgroupOf is the name of a sandbox's cgroup, which has a child for each real node. The name is a hash of the directory, so that Down
// finds the cgroup even if files of the sandbox are lost.
func cgroupOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "trellis-" + hex.EncodeToString(sum[:5])
}

// removeCgroups removes the cgroups of the sandbox from all hierarchies. Its processes have ended, but the kernel
// may still be removing them.
func (s *Sandbox) removeCgroups(ctx context.Context) error {
	hierarchies, err := filepath.Glob(cgroupRoot + "/*")
	if err != nil {
		return err
	}
	for _, hierarchy := range append(hierarchies, cgroupRoot) {
		if err := removeCgroup(ctx, filepath.Join(hierarchy, cgroupOf(s.dir))); err != nil {
			return err
		}
	}
	return nil
}

func removeCgroup(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil //nolint:nilerr // there is none
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		last = removeTree(dir)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("removing cgroup %s: %w", dir, errors.Join(last, err))
	}
	return nil
}

// removeTree removes the folders of a cgroup, innermost first. Their files belong to the kernel and need not be removed.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Reverse(dirs)
	for _, d := range dirs {
		if err := syscall.Rmdir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return nil
}

// checkUnmounted is an error if a file system is mounted below the folders of the nodes, since Down would delete files of the machine.
// The mounts of real nodes are in mount namespaces, which end with the nodes.
func (s *Sandbox) checkUnmounted() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil //nolint:nilerr // a system without mounts of that kind
	}
	return unmounted(s.path(nodesDir), string(mounts))
}

func unmounted(dir, mounts string) error {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			return fmt.Errorf("%s is still mounted: unmount it first", fields[4])
		}
	}
	return nil
}
