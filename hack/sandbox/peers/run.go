// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// starter starts a set of peers in one sandbox.
type starter struct {
	*Set
	report progress.Func
	// ca is the certificate authority of the webhooks, base64-encoded.
	ca string
}

// start installs and starts one peer after the other.
func (r *starter) start(ctx context.Context, s *sandbox.Sandbox) error {
	ca, err := s.WriteServingCertificate(certificates(s))
	if err != nil {
		return err
	}
	r.ca = base64.StdEncoding.EncodeToString(ca)
	for _, p := range r.peers {
		r.report.Say("starting %s", p.name)
		if err := r.startPeer(ctx, s, p); err != nil {
			return fmt.Errorf("starting %s: %w", p.name, err)
		}
	}
	return nil
}

// certificates is the folder of the peers' serving certificate. It is below the temporary directory of the programs, because KAI's
// podgroupcontroller has no flag for it and looks there.
func certificates(s *sandbox.Sandbox) string {
	return filepath.Join(s.PeersDir(), "k8s-webhook-server", "serving-certs")
}

// certificates is the folder of the peer's serving certificate. A peer that makes its own certificate has a folder of its own.
func (p peer) certificates(s *sandbox.Sandbox) string {
	if p.kustomization != "" {
		return filepath.Join(s.PeersDir(), strings.ToLower(p.name)+"-certificates")
	}
	return certificates(s)
}

func (r *starter) startPeer(ctx context.Context, s *sandbox.Sandbox, p peer) error {
	from := r.sources
	if p.module != "" {
		var err error
		if from, err = r.build(ctx, p); err != nil {
			return err
		}
	}
	if p.kustomization != "" {
		return r.startController(ctx, s, p, from)
	}
	for _, crds := range p.crds {
		definitions, err := definitionsIn(filepath.Join(from, crds))
		if err != nil {
			return err
		}
		if err := s.Apply(ctx, definitions); err != nil {
			return err
		}
	}
	if err := r.grant(ctx, s, p); err != nil {
		return err
	}
	installed, err := r.objects(ctx, p, filepath.Join(from, p.chart))
	if err != nil {
		return err
	}
	// The API server serves a new custom resource with a delay.
	var last error
	err = wait.PollUntilContextTimeout(ctx, time.Second, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = s.Apply(ctx, installed)
		return last == nil, nil
	})
	if err != nil {
		return last
	}
	for _, program := range p.programs {
		if err := r.launch(ctx, s, p, program); err != nil {
			return err
		}
	}
	for _, program := range p.programs {
		if err := s.WaitForProgram(ctx, program.name); err != nil {
			return err
		}
	}
	return nil
}

// objects are the objects of a peer except its custom resource definitions, namespaces first.
func (r *starter) objects(ctx context.Context, p peer, dir string) ([]*unstructured.Unstructured, error) {
	if p.chart == "" {
		return p.ownObjects()
	}
	rendered, err := r.chart(ctx, dir, p)
	if err != nil {
		return nil, err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetName(p.namespace)
	out := []*unstructured.Unstructured{namespace}
	out = append(append(out, accounts(rendered, p.namespace)...), rendered...)
	if p.name == string(sandbox.KAI) {
		webhooks, err := decode(strings.NewReader(podGroupWebhook), installedKinds...)
		if err != nil {
			return nil, err
		}
		out = append(out, webhooks...)
	}
	out = sorted(out)
	for _, o := range out {
		if err := direct(o, p.port, r.ca); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// launch starts a program with the rights of its ServiceAccount.
func (r *starter) launch(ctx context.Context, s *sandbox.Sandbox, p peer, program program) error {
	kubeconfig, err := s.AccountKubeconfig(ctx, p.namespace, program.account)
	if err != nil {
		return err
	}
	args, env := program.args, slices.Clone(program.env)
	if program.config != "" {
		file := filepath.Join(s.PeersDir(), program.name+".yaml")
		if err := write(file, strings.ReplaceAll(program.config, "DIR", strconv.Quote(p.certificates(s)))); err != nil {
			return err
		}
		if program.configVariable != "" {
			env = append(env, program.configVariable+"="+file)
		} else {
			args = append(args, "--config="+file)
		}
	}
	return s.StartProgram(sandbox.Program{
		Name: program.name, Path: filepath.Join(r.programs, program.name), Args: args,
		Env: append(env, "KUBECONFIG="+kubeconfig, "TMPDIR="+s.PeersDir(), "NAMESPACE="+p.namespace, "POD_NAMESPACE="+p.namespace,
			"GROVE_INIT_CONTAINER_IMAGE=grove-initc"),
	})
}
