// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Release is a version of the operator.
type Release struct {
	// Manifests is the folder of the kustomization, ManagerBinary the program of the manager.
	Manifests, ManagerBinary string
	// Keep are objects of the manifests, as "Kind/name", that ReplaceOperator does not apply: the cluster keeps its own.
	Keep []string
}

// ReplaceOperator ends the manager, applies the manifests of another version of the operator, and starts the manager of that version. As
// with kubectl apply, objects stay that only the previous manifests have.
func (s *Sandbox) ReplaceOperator(ctx context.Context, to Release) error {
	m, err := s.manifestsOf(to, s.port(webhookPort(DefaultManager)))
	if err != nil {
		return err
	}
	if err := s.StopManager(ctx, DefaultManager); err != nil {
		return err
	}
	return s.install(ctx, to, m, ManagerOptions{})
}

// AddOperator applies the manifests of another version of the operator, and starts the manager of that version as a further one with the
// options, while the others continue: a rollout that is half way. The API server calls the webhooks at a port of this machine from now on.
// Each manager needs the flag --leader-elect.
func (s *Sandbox) AddOperator(ctx context.Context, to Release, port int, opts ManagerOptions) error {
	m, err := s.manifestsOf(to, port)
	if err != nil {
		return err
	}
	return s.install(ctx, to, m, opts)
}

// manifestsOf renders the manifests of a version, with its webhooks at a port of this machine.
func (s *Sandbox) manifestsOf(version Release, port int) (*manifests, error) {
	if s.state.Manager == nil {
		return nil, errors.New("the sandbox was started without the operator")
	}
	m, err := render(version.Manifests)
	if err != nil {
		return nil, err
	}
	m.objects = slices.DeleteFunc(m.objects, func(o *unstructured.Unstructured) bool {
		return slices.Contains(version.Keep, o.GetKind()+"/"+o.GetName())
	})
	return m, m.redirect(port)
}

// install applies manifests and starts the manager of their version.
func (s *Sandbox) install(ctx context.Context, version Release, m *manifests, opts ManagerOptions) error {
	config, err := s.RESTConfig()
	if err != nil {
		return err
	}
	s.state.Manager = newManagerSpec(ctx, Options{ManagerBinary: version.ManagerBinary}, m.manager)
	if err := s.save(); err != nil {
		return err
	}
	if err := apply(ctx, config, m.installOrder()); err != nil {
		return err
	}
	if err := s.StartManager(ctx, opts); err != nil {
		return err
	}
	return waitForWebhooks(ctx, config, m)
}
