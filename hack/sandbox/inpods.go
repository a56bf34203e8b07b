// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
)

// InstallInPods applies the manifests of the operator as they are, so that it runs in pods of the real nodes, and waits until it serves
// admission and conversion. The sandbox has [RealNodes.OperatorInPods], and the nodes have the image that the manifests name. The
// kube-scheduler may also bind the pods to simulated nodes, which run nothing: cordon these before.
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

// ManagerImage is the image that manifests of the operator name.
func ManagerImage(manifestsDir string) (string, error) {
	m, err := render(manifestsDir)
	if err != nil {
		return "", err
	}
	return m.manager.Spec.Template.Spec.Containers[0].Image, nil
}
