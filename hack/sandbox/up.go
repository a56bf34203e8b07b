// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// ErrRunning is the error of Up when a sandbox already runs in the directory. Up returns that Sandbox with it,
// with its options unchanged.
var ErrRunning = errors.New("the sandbox is already running")

// Up starts a sandbox and waits until it is usable: all components serve, all nodes are Ready, the peers and the operator (if requested)
// are ready. It first removes the remains of a crashed sandbox or of an interrupted Up. After an error only the logs remain, which the
// error names; after a cancellation nothing remains.
func Up(ctx context.Context, opts Options) (*Sandbox, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	nodes := opts.Nodes()
	if opts.NodesFile != "" {
		if nodes, err = readNodes(opts.NodesFile); err != nil {
			return nil, err
		}
	}
	if running := Running(opts.Dir); running != nil {
		return running, ErrRunning
	}
	assets, err := binaries.Ensure(ctx, opts.Root, opts.Progress)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{dir: opts.Dir, state: state{
		Name: opts.Name, Assets: assets, Provider: opts.Provider, Shape: opts.Shape, NodesFile: opts.NodesFile,
		Ports: map[string]int{}, Created: time.Now().Truncate(time.Second), Audit: opts.Audit, AuditPolicy: opts.AuditPolicy,
	}}
	if s.state.Real, err = newRealState(ctx, opts); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx, func() { opts.Progress.Say("another command is working on %s; waiting for it", opts.Dir) })
	if err != nil {
		return nil, err
	}
	defer unlock()
	if running, err := s.takeOver(ctx, opts.Progress); err != nil || running != nil {
		return running, err
	}
	if err := s.reservePorts(opts.Peers); err != nil {
		return nil, errors.Join(err, s.removeAll())
	}
	if err := s.up(ctx, opts, nodes); err != nil {
		return nil, s.abandon(ctx, err)
	}
	return s, nil
}

// Running returns the running sandbox of a directory, or nil if there is none or not all of its processes run.
func Running(dir string) *Sandbox {
	s, err := Open(dir)
	if err != nil || !s.state.Ready || len(s.NotRunning()) > 0 {
		return nil
	}
	return s
}

// takeOver removes the remains of an earlier sandbox from the directory. If a sandbox runs there, takeOver returns it with ErrRunning.
func (s *Sandbox) takeOver(ctx context.Context, report progress.Func) (*Sandbox, error) {
	if running := Running(s.dir); running != nil { // started while this process waited for the lock
		return running, ErrRunning
	}
	if _, err := Open(s.dir); !errors.Is(err, ErrNotFound) {
		report.Say("cleaning up after a sandbox that did not end well")
	}
	if err := s.killAll(ctx); err != nil {
		return nil, err
	}
	return nil, s.removeContents()
}

// up starts each part of the sandbox as soon as the parts that it needs are ready.
func (s *Sandbox) up(ctx context.Context, opts Options, nodes []corev1.Node) error {
	authority, err := s.prepare()
	if err != nil {
		return fmt.Errorf("preparing %s: %w", s.dir, err)
	}
	opts.Progress.Say("starting etcd and kube-apiserver")
	for _, name := range []string{etcd, apiServer} {
		if err := s.startFirst(ctx, name); err != nil {
			return err
		}
	}
	if err := s.writeKubeconfigs(authority); err != nil {
		return fmt.Errorf("writing kubeconfigs: %w", err)
	}
	opts.Progress.Say("starting kube-controller-manager, kube-scheduler and kwok")
	group, groupCtx := errgroup.WithContext(ctx)
	for _, name := range []string{controllerManager, scheduler, kwok} {
		group.Go(func() error { return s.startFirst(groupCtx, name) })
	}
	group.Go(func() error { return s.addNodes(groupCtx, nodes, opts.Progress) })
	group.Go(func() error { return s.addRealNodes(groupCtx, authority, opts) })
	group.Go(func() error { return s.waitForDefaultAccount(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	if opts.Peers != nil {
		if err := opts.Peers.Start(ctx, s); err != nil {
			return err
		}
	}
	if opts.Operator {
		if err := s.installOperator(ctx, opts); err != nil {
			return fmt.Errorf("installing the operator: %w", err)
		}
	}
	if err := s.wholeness(); err != nil {
		return err
	}
	s.state.Ready = true
	return s.save()
}

// prepare writes the files that the first processes need.
func (s *Sandbox) prepare() (*authority, error) {
	for _, dir := range []string{logDir, pidDir} {
		if err := mkdir(s.path(dir)); err != nil {
			return nil, err
		}
	}
	if err := s.save(); err != nil {
		return nil, err
	}
	if err := s.writeConf(); err != nil {
		return nil, err
	}
	if s.state.Real != nil {
		if err := s.writeEgress(); err != nil {
			return nil, err
		}
	}
	a, err := newAuthority(s.state.Name)
	if err != nil {
		return nil, err
	}
	return a, a.writePKI(s.dir)
}

func (s *Sandbox) writeKubeconfigs(a *authority) error {
	for name, user := range users {
		id, err := a.client(user[0], user[1:]...)
		if err != nil {
			return err
		}
		if err := s.writeKubeconfig(componentKubeconfig(name), &clientcmdapi.AuthInfo{ClientCertificateData: id.cert,
			ClientKeyData: id.key}); err != nil {
			return err
		}
	}
	id, err := a.client("trellis-sandbox-admin", "system:masters")
	if err != nil {
		return err
	}
	return s.writeKubeconfig(kubeconfigFile, &clientcmdapi.AuthInfo{ClientCertificateData: id.cert, ClientKeyData: id.key})
}

// abandon ends what Up started. It keeps the logs after an error and removes them after a cancellation.
func (s *Sandbox) abandon(ctx context.Context, cause error) error {
	cleanup := context.WithoutCancel(ctx)
	err := s.killAll(cleanup)
	if ctx.Err() == nil {
		return errors.Join(cause, err)
	}
	if err == nil {
		err = s.removeAll()
	}
	return errors.Join(fmt.Errorf("given up: %w", context.Cause(ctx)), err)
}
