// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proc starts programs that outlive the program that started them, and finds them again later.
//
// A pid alone is no name for a process: the kernel hands it out again. A pid file therefore holds the pid together with the time at which
// that process started (and the boot it belongs to); a process is only ever signalled when both still agree.
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
	// Name is what messages call it.
	Name string
	// Path of the program, and its arguments without the name.
	Path string
	Args []string
	// Env is the whole environment.
	Env []string
	// Dir is the working directory.
	Dir string
	// LogFile gets both output streams, appended.
	LogFile string
	// PIDFile names the process for later commands.
	PIDFile string
	// Namespaced starts the program as the first process of new namespaces of mounts, processes, network, host name and IPC. Linux only.
	Namespaced bool
}

// Process is a running program, or one that has ended.
type Process struct {
	Name    string
	PID     int
	LogFile string

	started string
	pidFile string
	exited  chan struct{} // closed when a child of this program has ended; nil for a process found by its pid file
}

// record is the content of a pid file.
type record struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started string `json:"started"`
	LogFile string `json:"logFile"`
}

// Start starts the program in a session of its own, so that neither a closed terminal nor Ctrl-C reaches it.
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
	// Until Wait below the pid cannot be handed out again. A child that has ended already keeps an empty time, which no process has.
	p.started, err = startTime(p.PID)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		err = p.save()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("recording %s: %w", spec.Name, err), cmd.Process.Kill(), cmd.Wait())
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.exited)
	}()
	return p, nil
}

// Load finds the process that a pid file names. The process may have ended; without the file the error is fs.ErrNotExist.
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

// LoadAll finds the processes of all pid files in a directory, which need not exist. An unreadable file is skipped: nothing can be learned
// from it.
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

// save writes the pid file whole or not at all.
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

// Alive reports whether the process runs. A zombie does not, nor does another process that got the same pid.
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

// Wait returns when the process has ended, or with the context's error.
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

// Signal sends a signal; a process that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	// The handle is taken before the look at the start time: where the kernel offers pid file descriptors it cannot come to mean another
	// process afterwards.
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

// Stop asks the process to end, insists after the grace period, and removes the pid file once it has gone.
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

// Kill ends the process at once, without a chance to say goodbye, and removes the pid file.
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
