// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binaries builds the programs of the control plane from Go modules, once per version, into the user's cache directory.
//
// It needs no image and downloads no binaries: hack/controlplane is a Go module with one program that contains etcd, the Kubernetes
// components, kubectl and kwok, and runs as one of them by its name. A first build takes about ten minutes on two cores; later calls find
// the build by a hash of the module's files. Tests against an API server use the same directory as KUBEBUILDER_ASSETS. The programs of
// real nodes are built from hack/kubelet and hack/coredns in the same way, and only when a sandbox has real nodes.
package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/trellis-k8s/trellis/hack/sandbox/filelock"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// Version is the Kubernetes version of hack/controlplane.
const Version = "v1.37.2"

// Names are the programs of the control plane; each is a symbolic link to the one binary.
var Names = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "secret-mount"}

// moduleDir is the module of the control plane in the clone, and program the name of its binary.
const (
	moduleDir = "hack/controlplane"
	program   = "controlplane"
)

// module is a Go module of the clone with one binary that contains several programs and runs as one of them by its name.
type module struct {
	dir, program string
	names        []string
	// title names the binary in progress reports and errors; work is the time of a first build.
	title, work string
}

var (
	controlPlane = module{dir: moduleDir, program: program, names: Names, title: "the control plane", work: "about ten minutes"}
	kubelet      = module{dir: "hack/kubelet", program: "node", names: KubeletNames, title: "the kubelet", work: "some minutes"}
	coreDNS      = module{dir: "hack/coredns", program: "dns", names: []string{CoreDNS}, title: "CoreDNS", work: "some minutes"}
)

// ErrNotInClone says that the working directory is not in a clone of the repository.
var ErrNotInClone = errors.New("not inside a clone of the Trellis repository: the sandbox builds its control plane from " +
	"hack/controlplane there")

// FindRoot finds the root of the clone at or above a directory.
func FindRoot(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, moduleDir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNotInClone
		}
		dir = parent
	}
}

// CacheDir is the directory of built programs and of sandboxes without a directory of their own.
func CacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache directory: %w", err)
	}
	return filepath.Join(cache, "trellis"), nil
}

// Ensure returns the directory of the programs, and builds them if they are missing. After a build it removes the builds that nobody used
// for a month. When several processes need the same build, one of them builds; the others wait and report its progress.
func Ensure(ctx context.Context, root string, report progress.Func) (string, error) {
	return controlPlane.ensure(ctx, root, report)
}

func (m module) ensure(ctx context.Context, root string, report progress.Func) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	key, err := m.hash(root)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", m.dir, err)
	}
	dir := filepath.Join(cache, m.program+"-"+key)
	if m.complete(dir) {
		markUsed(dir, time.Now())
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	finished := func() {}
	unlock, err := filelock.Lock(ctx, dir+".lock", func() {
		report.Say("another process is building %s; waiting for it", m.title)
		finished = relay(ctx, dir+newsSuffix, report)
	})
	finished()
	if err != nil {
		return "", fmt.Errorf("waiting for the build in %s: %w", cache, err)
	}
	defer unlock()
	if m.complete(dir) { // by the process that held the lock
		return dir, nil
	}
	defer os.Remove(dir + newsSuffix)
	if err := m.install(ctx, root, dir, shared(dir+newsSuffix, report)); err != nil {
		return "", err
	}
	if err := prune(cache, time.Now(), report); err != nil {
		report.Say("old builds are left in %s: %v", cache, err)
	}
	return dir, nil
}

// install builds into a temporary directory and renames that, so that a directory with the final name is always complete.
func (m module) install(ctx context.Context, root, dir string, report progress.Func) error {
	scratch, err := os.MkdirTemp(filepath.Dir(dir), m.program+"-building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := m.build(ctx, filepath.Join(root, m.dir), filepath.Join(scratch, m.program), report); err != nil {
		return err
	}
	for _, name := range m.names {
		if err := os.Symlink(m.program, filepath.Join(scratch, name)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil { // files of an earlier build were deleted
		return err
	}
	return os.Rename(scratch, dir)
}

func (m module) complete(dir string) bool {
	return !slices.ContainsFunc(m.names, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err != nil
	})
}

// hash is a hash of the platform and of all files of the module that affect the program.
func (m module) hash(root string) (string, error) {
	folder := filepath.Join(root, m.dir)
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", fs.ErrNotExist
	}
	embedded, err := filepath.Glob(filepath.Join(folder, "conf", "*"))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.GOOS, runtime.GOARCH, m.names, linkerFlags)
	for _, name := range slices.Concat(files, embedded, []string{filepath.Join(folder, "go.mod"), filepath.Join(folder, "go.sum")}) {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, filepath.Base(name))
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}
