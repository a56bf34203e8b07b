// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
)

// Controller is a controller of others that is installed as its own kustomization says. It runs as a process of the sandbox in place of its
// Deployment, with the rights of its ServiceAccount and the certificate that it makes for itself.
type Controller struct {
	// Manifests is the folder of the kustomization.
	Manifests string
	// Without are kinds that are not installed.
	Without []string
	// WebhookPort is the port on this machine that it serves its webhooks at.
	WebhookPort int
	// Certificates is the folder that gets the Secret with its certificate, as if that were mounted.
	Certificates string
}

// Installed is a controller whose objects are in the cluster.
type Installed struct {
	sandbox   *Sandbox
	manifests *manifests
}

// Install applies what the kustomization of a controller has, all but its Deployment. It starts a program that mounts the Secret with its
// certificate.
func (s *Sandbox) Install(ctx context.Context, c Controller) (*Installed, error) {
	m, err := render(c.Manifests)
	if err != nil {
		return nil, err
	}
	m.objects = slices.DeleteFunc(m.objects, func(o *unstructured.Unstructured) bool { return slices.Contains(c.Without, o.GetKind()) })
	if err := m.redirect(c.WebhookPort); err != nil {
		return nil, err
	}
	if err := s.Apply(ctx, m.installOrder()); err != nil {
		return nil, err
	}
	installed := &Installed{sandbox: s, manifests: m}
	secret := m.certSecret()
	if secret == "" {
		return installed, nil
	}
	return installed, s.StartProgram(Program{
		Name: m.manager.Name + "-" + secretMount, Path: s.state.Assets + "/" + secretMount,
		Args: []string{"--kubeconfig=" + s.Kubeconfig(), "--namespace=" + m.manager.Namespace, "--name=" + secret, "--dir=" + c.Certificates},
	})
}

// WaitForWebhooks waits until the controller, which runs by now, has written its authority into all of its webhooks.
func (i *Installed) WaitForWebhooks(ctx context.Context) error {
	config, err := i.sandbox.RESTConfig()
	if err != nil {
		return err
	}
	return waitForWebhooks(ctx, config, i.manifests)
}

// KillProgram ends a program of a peer with SIGKILL. One that does not run is no error.
func (s *Sandbox) KillProgram(ctx context.Context, name string) error {
	return s.end(name, func(p *proc.Process) error { return p.Kill(ctx) })
}
