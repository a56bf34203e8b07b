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
	if s.state.Manager == nil {
		return errors.New("the sandbox was started without the operator")
	}
	m, err := render(to.Manifests)
	if err != nil {
		return err
	}
	m.objects = slices.DeleteFunc(m.objects, func(o *unstructured.Unstructured) bool {
		return slices.Contains(to.Keep, o.GetKind()+"/"+o.GetName())
	})
	if err := m.redirect(s.port(webhookPort(DefaultManager))); err != nil {
		return err
	}
	config, err := s.RESTConfig()
	if err != nil {
		return err
	}
	if err := s.StopManager(ctx, DefaultManager); err != nil {
		return err
	}
	s.state.Manager = newManagerSpec(Options{ManagerBinary: to.ManagerBinary}, m.manager)
	if err := s.save(); err != nil {
		return err
	}
	if err := apply(ctx, config, m.installOrder()); err != nil {
		return err
	}
	if err := s.StartManager(ctx, ManagerOptions{}); err != nil {
		return err
	}
	return waitForWebhooks(ctx, config, m)
}
