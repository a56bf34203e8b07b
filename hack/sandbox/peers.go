// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/test/testutil/ports"
)

// Peers are other systems that run next to the control plane as processes of the sandbox: Status lists them, Down ends them. Package
// peers has the available ones.
type Peers struct {
	// Ports are the ports on 127.0.0.1 of each program. They are fixed, so only one sandbox with these programs can run on a machine.
	// Status shows the first port of a program.
	Ports map[string][]int
	// Start installs and starts the peers with Apply, StartProgram and WaitForProgram. Up calls it when all nodes are Ready,
	// before it starts the operator.
	Start func(ctx context.Context, s *Sandbox) error
}

// Program is a program of a peer.
type Program struct {
	// Name of the process and of its log file.
	Name string
	// Path of the program. Args are its arguments without the program name.
	Path string
	Args []string
	// Env are additional NAME=value entries.
	Env []string
}

// reservePorts reserves the ports of the peers' programs, or reports a port that another program uses.
func (s *Sandbox) reservePorts(p *Peers) error {
	if p == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.Ports)) {
		for i, port := range p.Ports[name] {
			if !ports.IsFree(port) {
				return fmt.Errorf("port %d is in use, and %s listens on no other one: end the program that has it. "+
					"Of sandboxes with %s only one can run at a time", port, name, name)
			}
			key := name
			if i > 0 {
				key = fmt.Sprintf("%s/%d", name, i)
			}
			s.state.Ports[key] = port
		}
	}
	return nil
}

// PeersDir is the directory for the files of peers: configurations, kubeconfigs, certificates. Down removes it.
func (s *Sandbox) PeersDir() string { return s.path(peersDir) }

// Apply applies objects in order, forces conflicts, and then waits until their custom resource definitions are Established.
func (s *Sandbox) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	config, err := s.RESTConfig()
	if err != nil {
		return err
	}
	return apply(ctx, config, objects)
}

// AccountKubeconfig writes a kubeconfig for a ServiceAccount to PeersDir, and returns its path.
func (s *Sandbox) AccountKubeconfig(ctx context.Context, namespace, account string) (string, error) {
	file := filepath.Join(peersDir, namespace+"-"+account+".kubeconfig")
	return s.path(file), s.writeAccountKubeconfig(ctx, file, namespace, account)
}

// WriteServingCertificate writes tls.crt and tls.key for a server on 127.0.0.1 to a directory, and returns their certificate authority.
func (s *Sandbox) WriteServingCertificate(dir string) (ca []byte, err error) {
	for from, to := range map[string]string{servingCertFile: "tls.crt", servingKeyFile: "tls.key"} {
		data, err := os.ReadFile(s.path(from))
		if err != nil {
			return nil, err
		}
		if err := writeFile(filepath.Join(dir, to), data); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(s.path(caFile))
}

// StartProgram starts a program of a peer. The sandbox saves the program's name before it starts the program, so that
// Down ends it in any case.
func (s *Sandbox) StartProgram(p Program) error {
	if err := mkdir(s.PeersDir()); err != nil {
		return err
	}
	if !slices.Contains(s.state.Programs, p.Name) {
		s.state.Programs = append(s.state.Programs, p.Name)
	}
	if s.programs == nil {
		s.programs = map[string]Program{}
	}
	s.programs[p.Name] = p
	if err := s.save(); err != nil {
		return err
	}
	_, err := proc.Start(proc.Spec{
		Name: p.Name, Path: p.Path, Args: p.Args, Env: slices.Concat(s.environment(), p.Env),
		Dir: s.PeersDir(), LogFile: s.LogFile(p.Name), PIDFile: s.pidFile(p.Name),
	})
	return err
}

// StopProgram ends a program of a peer with SIGTERM. It is not an error if the program does not run.
func (s *Sandbox) StopProgram(ctx context.Context, name string) error {
	return s.end(name, func(p *proc.Process) error { return p.Stop(ctx, managerGrace) })
}

// RestartProgram starts a program again that this process started and stopped, and waits for it.
func (s *Sandbox) RestartProgram(ctx context.Context, name string) error {
	p, found := s.programs[name]
	if !found {
		return fmt.Errorf("%s was not started by this process", name)
	}
	if err := s.StartProgram(p); err != nil {
		return err
	}
	return s.WaitForProgram(ctx, name)
}

// WaitForProgram waits until a program of a peer listens on its first port. If the program ends, the error contains the end of its log.
func (s *Sandbox) WaitForProgram(ctx context.Context, name string) error {
	p, err := proc.Load(s.pidFile(name))
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}
	return waitServing(ctx, p, 200*time.Millisecond, func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", local(s.port(name)))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// wholeness is an error if a process ended during the start of the others.
func (s *Sandbox) wholeness() error {
	var errs []error
	for _, name := range s.NotRunning() {
		log := s.LogFile(name)
		if _, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s does not run", name))
			continue
		}
		errs = append(errs, fmt.Errorf("%s has ended; the end of its log %s:\n%s", name, log, strings.TrimRight(proc.Tail(log, logLines), "\n")))
	}
	return errors.Join(errs...)
}
