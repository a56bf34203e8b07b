// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
)

// Controller is a controller of another project, installed from its own kustomization. It runs as a process of the sandbox instead of a
// Deployment, with the rights of its ServiceAccount and with the certificate that it makes itself.
type Controller struct {
	// Manifests is the folder of the kustomization.
	Manifests string
	// Without are the kinds that Install leaves out.
	Without []string
	// WebhookPort is the port on this machine on which the controller serves its webhooks.
	WebhookPort int
	// Certificates is the folder into which the sandbox writes the Secret of the certificate, like a mounted volume.
	Certificates string
}

// Installed is a controller whose objects have been applied.
type Installed struct {
	sandbox   *Sandbox
	manifests *manifests
}

// Install applies the objects of a controller's kustomization, except its Deployment. It starts a program that keeps the Secret of the
// certificate in a folder, as a kubelet would.
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

// WaitForWebhooks waits until the controller, which the caller has started, has written its certificate authority
// into all of its webhooks.
func (i *Installed) WaitForWebhooks(ctx context.Context) error {
	config, err := i.sandbox.RESTConfig()
	if err != nil {
		return err
	}
	return waitForWebhooks(ctx, config, i.manifests)
}

// KillProgram ends a program of a peer with SIGKILL. It is not an error if the program does not run.
func (s *Sandbox) KillProgram(ctx context.Context, name string) error {
	return s.end(name, func(p *proc.Process) error { return p.Kill(ctx) })
}
