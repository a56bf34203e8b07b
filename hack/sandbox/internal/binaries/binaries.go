// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binaries builds the control plane's programs from Go modules, once per version, into the user's cache.
//
// There is no image and no download of binaries: hack/controlplane is a Go module whose one program is etcd, the Kubernetes components,
// kubectl and kwok, chosen by name. A cold build takes about ten minutes on two cores; afterwards the result is found by the
// hash of that module's files. The same directory serves API-server tests as KUBEBUILDER_ASSETS. What real nodes need is built from
// hack/kubelet and hack/coredns in the same way, and only when it is asked for.
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

// Version of Kubernetes that hack/controlplane builds.
const Version = "v1.37.2"

// Names of the control plane's programs, each a link to the one binary.
var Names = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "secret-mount"}

// The module of the control plane, below the repository's root, and the file it is linked to.
const (
	moduleDir = "hack/controlplane"
	program   = "controlplane"
)

// module is a Go module below the repository's root with one program, which is several, chosen by name.
type module struct {
	dir, program string
	names        []string
	// title is what progress and errors call the program, work how long a cold build takes.
	title, work string
}

var (
	controlPlane = module{dir: moduleDir, program: program, names: Names, title: "the control plane", work: "about ten minutes"}
	kubelet      = module{dir: "hack/kubelet", program: "node", names: KubeletNames, title: "the kubelet", work: "some minutes"}
	coreDNS      = module{dir: "hack/coredns", program: "dns", names: []string{CoreDNS}, title: "CoreDNS", work: "some minutes"}
)

// ErrNotInClone states that the working directory does not belong to a clone of the repository.
var ErrNotInClone = errors.New("not inside a clone of the Trellis repository: the sandbox builds its control plane from " +
	"hack/controlplane there")

// FindRoot finds the repository's root at or above a directory.
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

// CacheDir is where built programs and default sandboxes live.
func CacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache directory: %w", err)
	}
	return filepath.Join(cache, "trellis"), nil
}

// Ensure returns the directory that holds the programs, and builds them first when they are missing. After a build it removes the builds
// that no one asked for in a month.
// Of several processes that need the same build one does it; the others wait and report how far it is.
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
	if m.complete(dir) { // by the process we waited for
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

// install builds into a scratch directory and renames it, so that a directory with the final name is always whole.
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
	if err := os.RemoveAll(dir); err != nil { // left incomplete by another owner's hand
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

// hash covers every file of the module that can change the program, and the platform.
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
