// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
)

// DefaultManager is the name of the manager that Up starts and that receives webhook calls.
const DefaultManager = "trellis-manager"

// managerGrace is how long a manager has to end after SIGTERM.
const managerGrace = 30 * time.Second

// ManagerOptions are the options of one start of a manager.
type ManagerOptions struct {
	// Name of the process; default DefaultManager. A start with another name adds another manager (with --leader-elect a standby), which
	// receives no webhook calls.
	Name string
	// Args follow all other flags and so override them. Env are additional NAME=value entries.
	Args, Env []string
}

// managerSpec is the configuration that later commands need to start a manager.
type managerSpec struct {
	Binary    string   `json:"binary"`
	Namespace string   `json:"namespace"`
	Args      []string `json:"args"`
	Env       []string `json:"env,omitempty"`
}

// newManagerSpec takes the arguments and plain environment variables from the Deployment, so that the sandbox runs the
// manager as a cluster does.
func newManagerSpec(ctx context.Context, opts Options, deployment *appsv1.Deployment) *managerSpec {
	container := deployment.Spec.Template.Spec.Containers[0]
	spec := &managerSpec{Binary: opts.ManagerBinary, Namespace: deployment.Namespace, Args: container.Args}
	for _, e := range container.Env {
		if e.ValueFrom == nil {
			spec.Env = append(spec.Env, e.Name+"="+e.Value)
		}
	}
	// There is one process and no standby, and the lease of a killed manager would delay the next start.
	spec.Args = append(spec.Args, "--leader-elect=false")
	if knows(ctx, spec.Binary, noDelay) {
		spec.Args = append(spec.Args, noDelay+"=0s")
	}
	spec.Args = append(spec.Args, opts.Manager.Args...)
	spec.Env = append(append(spec.Env, "POD_NAMESPACE="+deployment.Namespace), opts.Manager.Env...)
	return spec
}

// noDelay is the flag for how long an ending manager serves its webhooks. v0.1.0 does not have it.
const noDelay = "--shutdown-delay"

// knows reports whether the help of a program has a flag. A program without a help has every flag.
func knows(ctx context.Context, program, flag string) bool {
	help, err := exec.CommandContext(ctx, program, "--help").Output()
	return err != nil || len(help) == 0 || bytes.Contains(help, []byte(flag+" "))
}

func webhookPort(name string) string { return name + "/webhook" }
func metricsPort(name string) string { return name + "/metrics" }
func healthPort(name string) string  { return name + "/health" }

// StartManager starts a manager and waits until it is ready, including its webhooks and certificates. Up starts the default manager;
// tests start it again after StopManager or KillManager, with other flags or variables if they need them.
func (s *Sandbox) StartManager(ctx context.Context, opts ManagerOptions) error {
	p, err := s.LaunchManager(opts)
	if err != nil {
		return err
	}
	return s.WaitForManager(ctx, p.Name)
}

// LaunchManager starts a manager and does not wait, for managers that are not expected to become ready.
func (s *Sandbox) LaunchManager(opts ManagerOptions) (*proc.Process, error) {
	spec, name := s.state.Manager, cmp.Or(opts.Name, DefaultManager)
	if spec == nil {
		return nil, errors.New("the sandbox was started without the operator")
	}
	if p, err := proc.Load(s.pidFile(name)); err == nil && p.Alive() {
		return nil, fmt.Errorf("%s is already running (pid %d)", name, p.PID)
	}
	for _, port := range []string{webhookPort(name), metricsPort(name), healthPort(name)} {
		if s.port(port) != 0 {
			continue
		}
		if err := s.takePort(port); err != nil {
			return nil, err
		}
	}
	if err := s.save(); err != nil {
		return nil, err
	}
	args := slices.Concat(spec.Args, []string{
		"--kubeconfig=" + s.path(managerKubeconfig),
		fmt.Sprintf("--webhook-port=%d", s.port(webhookPort(name))), "--webhook-cert-dir=" + s.path(certMount),
		"--metrics-bind-address=" + local(s.port(metricsPort(name))), "--health-probe-bind-address=" + local(s.port(healthPort(name))),
	}, opts.Args)
	return proc.Start(proc.Spec{
		Name: name, Path: spec.Binary, Args: args, Env: slices.Concat(s.environment(), []string{"POD_NAME=" + name}, spec.Env, opts.Env),
		Dir: s.dir, LogFile: s.LogFile(name), PIDFile: s.pidFile(name),
	})
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// WaitForManager waits until a running manager is ready.
func (s *Sandbox) WaitForManager(ctx context.Context, name string) error {
	p, err := proc.Load(s.pidFile(name))
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	// The interval is longer because the manager logs every failed probe.
	return waitServing(ctx, p, 200*time.Millisecond, func(ctx context.Context) error {
		return get(ctx, client, "http://"+local(s.port(healthPort(name)))+"/readyz")
	})
}

// StopManager ends a manager with SIGTERM and waits for its end. It is not an error if the manager does not run.
func (s *Sandbox) StopManager(ctx context.Context, name string) error {
	return s.end(cmp.Or(name, DefaultManager), func(p *proc.Process) error { return p.Stop(ctx, managerGrace) })
}

// KillManager ends a manager with SIGKILL.
func (s *Sandbox) KillManager(ctx context.Context, name string) error {
	return s.end(cmp.Or(name, DefaultManager), func(p *proc.Process) error { return p.Kill(ctx) })
}

// ManagerMetrics is the address of the metrics endpoint of a manager.
func (s *Sandbox) ManagerMetrics(name string) string { return local(s.port(metricsPort(name))) }

// ManagerWebhooks is the address of the webhook server of a manager.
func (s *Sandbox) ManagerWebhooks(name string) string { return local(s.port(webhookPort(name))) }

// ManagerProbes is the address of the health probes of a manager.
func (s *Sandbox) ManagerProbes(name string) string { return local(s.port(healthPort(name))) }

// end ends a process with the given function, if the process exists.
func (s *Sandbox) end(name string, end func(*proc.Process) error) error {
	p, err := proc.Load(s.pidFile(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return end(p)
}
