// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
)

// InstallInPods applies the manifests of the operator unchanged, so that it runs in pods on real nodes, and waits until its admission and
// conversion webhooks respond. It requires [RealNodes.OperatorInPods] and nodes with the image that the manifests name. The
// kube-scheduler may also bind the pods to simulated nodes, which run nothing: cordon those first.
func (s *Sandbox) InstallInPods(ctx context.Context, manifestsDir string) error {
	if s.state.Real == nil || !s.state.Real.OperatorInPods {
		return errors.New("the sandbox was started without the option RealNodes.OperatorInPods")
	}
	m, err := render(manifestsDir)
	if err != nil {
		return err
	}
	config, err := s.RESTConfig()
	if err != nil {
		return err
	}
	if err := apply(ctx, config, append(m.installOrder(), m.deployment)); err != nil {
		return err
	}
	return waitForWebhooks(ctx, config, m)
}

// ManagerImage is the image of the manager in the manifests of the operator.
func ManagerImage(manifestsDir string) (string, error) {
	m, err := render(manifestsDir)
	if err != nil {
		return "", err
	}
	return m.manager.Spec.Template.Spec.Containers[0].Image, nil
}
