// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proc starts programs that outlive the program that started them, and finds them again later.
//
// A pid does not identify a process, since the kernel reuses pids. A pid file therefore contains the pid and the start time of the
// process, together with the boot ID; this package signals a process only if both still match.
package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Spec describes how to start a program.
type Spec struct {
	// Name is the name of the program in messages.
	Name string
	// Path of the program. Args are its arguments without the program name.
	Path string
	Args []string
	// Env is the complete environment.
	Env []string
	// Dir is the working directory.
	Dir string
	// LogFile is the file to which both output streams are appended.
	LogFile string
	// PIDFile is the file by which later commands find the process.
	PIDFile string
	// Namespaced starts the program as the first process of new mount, PID, network, UTS and IPC namespaces. Linux only.
	Namespaced bool
}

// Process is a process that runs or has ended.
type Process struct {
	Name    string
	PID     int
	LogFile string

	started string
	pidFile string
	exited  chan struct{} // closed when a child process has ended; nil for a process from a pid file
}

// record is the content of a pid file.
type record struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started string `json:"started"`
	LogFile string `json:"logFile"`
}

// Start starts the program in a new session, so that neither a closed terminal nor Ctrl-C ends it.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = spec.Env, spec.Dir, log, log
	cmd.SysProcAttr = detached()
	if spec.Namespaced {
		namespaced(cmd.SysProcAttr)
	}
	withhold()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	p := &Process{Name: spec.Name, PID: cmd.Process.Pid, LogFile: spec.LogFile, pidFile: spec.PIDFile, exited: make(chan struct{})}
	// The kernel cannot reuse the pid before Wait below. A child that has already ended gets an empty start time,
	// which matches no process.
	p.started, err = startTime(p.PID)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		err = p.save()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("recording %s: %w", spec.Name, err), cmd.Process.Kill(), cmd.Wait())
	}
	go func() {
		_ = cmd.Wait() // the log says how the program ended
		close(p.exited)
	}()
	return p, nil
}

// Load returns the process of a pid file. The process may have ended; without the file the error is fs.ErrNotExist.
func Load(pidFile string) (*Process, error) {
	data, err := os.ReadFile(pidFile)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", pidFile, err)
	}
	return &Process{Name: r.Name, PID: r.PID, LogFile: r.LogFile, started: r.Started, pidFile: pidFile}, nil
}

// LoadAll returns the processes of all pid files in a directory, which need not exist. It skips files that it cannot read.
func LoadAll(dir string) ([]*Process, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.pid"))
	if err != nil {
		return nil, err
	}
	var all []*Process
	for _, f := range files {
		if p, err := Load(f); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// save writes the pid file atomically.
func (p *Process) save() error {
	data, err := json.Marshal(record{Name: p.Name, PID: p.PID, Started: p.started, LogFile: p.LogFile})
	if err != nil {
		return err
	}
	tmp := p.pidFile + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, p.pidFile)
}

// Alive reports whether the process runs. A zombie does not run, nor does another process with the same pid.
func (p *Process) Alive() bool {
	if p.exited != nil {
		select {
		case <-p.exited:
			return false
		default:
		}
	}
	started, err := startTime(p.PID)
	return err == nil && started == p.started
}

// Wait waits until the process has ended, or returns the error of the context.
func (p *Process) Wait(ctx context.Context) error {
	if p.exited != nil {
		select {
		case <-p.exited:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) { return !p.Alive(), nil })
}

// Signal sends a signal. It is not an error if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	// The handle is taken before Alive reads the start time: with pid file descriptors it cannot refer to another process afterwards.
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	defer handle.Release() //nolint:errcheck // nothing can be done about it
	if !p.Alive() {
		return nil
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling %s (pid %d): %w", p.Name, p.PID, err)
	}
	return nil
}

// Stop sends SIGTERM, after the grace period SIGKILL, and removes the pid file when the process has ended.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	polite, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if p.Wait(polite) == nil {
		return p.forget()
	}
	return p.Kill(ctx)
}

// Kill sends SIGKILL and removes the pid file when the process has ended.
func (p *Process) Kill(ctx context.Context) error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		return fmt.Errorf("waiting for the end of %s (pid %d): %w", p.Name, p.PID, err)
	}
	return p.forget()
}

func (p *Process) forget() error {
	if p.pidFile == "" {
		return nil
	}
	if err := os.Remove(p.pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
