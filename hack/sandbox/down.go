// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
)

// Down ends all processes of the sandbox and removes its files.
func (s *Sandbox) Down(ctx context.Context) error { return Down(ctx, s.dir) }

// Down ends all processes of the sandbox of a directory, even of an incomplete one, and removes its files. Without a sandbox there,
// the error is ErrNotFound.
func Down(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	s := &Sandbox{dir: dir}
	if !s.exists() {
		if len(s.processes()) == 0 {
			return fmt.Errorf("%w in %s", ErrNotFound, s.dir)
		}
		return s.killAll(ctx) // the directory was removed while the processes were running
	}
	unlock, err := s.lock(ctx, nil)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.killAll(ctx); err != nil {
		return err
	}
	return s.removeAll()
}

// exists reports whether the directory holds a sandbox, even an incomplete one.
func (s *Sandbox) exists() bool {
	for _, name := range []string{stateFile, lockFile} {
		if _, err := os.Stat(s.path(name)); err == nil {
			return true
		}
	}
	return false
}

// processes are the processes of this sandbox, found by pid files and, where the system allows it, by envMark.
func (s *Sandbox) processes() []*proc.Process {
	all, err := proc.LoadAll(s.path(pidDir))
	if err != nil {
		all = nil
	}
	for _, p := range proc.FindByEnv(envMark + "=" + s.dir) {
		if !slices.ContainsFunc(all, func(known *proc.Process) bool { return known.PID == p.PID && known.Alive() }) {
			all = append(all, p)
		}
	}
	return all
}

// killAll kills every process, since a sandbox has nothing to save. The mounts, interfaces and pods of a real node end with its first
// process; killAll removes the cgroups.
func (s *Sandbox) killAll(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for _, p := range s.processes() {
		group.Go(func() error { return p.Kill(groupCtx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.removeCgroups(ctx)
}

// removeContents removes the files of a sandbox from its directory, except the lock.
func (s *Sandbox) removeContents() error {
	if err := s.checkUnmounted(); err != nil {
		return err
	}
	for _, name := range contents {
		if name == lockFile {
			continue
		}
		if err := os.RemoveAll(s.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes the files of the sandbox and then its directory, unless that holds other files.
func (s *Sandbox) removeAll() error {
	if err := s.removeContents(); err != nil {
		return err
	}
	if err := os.Remove(s.path(lockFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		return err
	}
	return os.Remove(s.dir)
}
