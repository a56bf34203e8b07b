// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// Kueue is the name of the peer that provides quota. No provider needs it, since it does not place pods.
const Kueue = "Kueue"

// KueueProgram is the name of Kueue's program.
const KueueProgram = "kueue"

// kueueModule is the Go module of Kueue, which also contains its manifests.
const kueueModule = "sigs.k8s.io/kueue@v0.19.2"

// kueuePeer is installed from the kustomization of Kueue's release. Kueue's visibility API, an aggregated API server, does not run.
var kueuePeer = peer{
	name: Kueue, namespace: "kueue-system", module: kueueModule, main: "./cmd/kueue", kustomization: "config/default", port: 49443,
	rights: []string{"kueue", "kueue-placement"},
	programs: []program{{
		name: KueueProgram, account: "kueue-controller-manager", config: kueueConfig, ports: []int{49443, 49081},
		args: []string{"--feature-gates=VisibilityOnDemand=false", "--zap-log-level=2"},
	}},
}

const kueueConfig = `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
leaderElection: {leaderElect: false}
internalCertManagement: {enable: true, webhookServiceName: kueue-webhook-service, webhookSecretName: kueue-webhook-server-cert}
webhook: {port: 49443, host: 127.0.0.1, certDir: DIR}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "127.0.0.1:49081"}
integrations: {frameworks: [pod, leaderworkerset.x-k8s.io/leaderworkerset]}
`

// Additional returns the names of peers that run with any provider. It ignores the case of the arguments.
func Additional(names ...string) ([]string, error) {
	var out []string
	for _, name := range names {
		at := slices.IndexFunc(additional, func(p peer) bool { return strings.EqualFold(p.name, name) })
		if at < 0 {
			return nil, fmt.Errorf("%q: there are %s", name, strings.Join(namesOf(additional), ", "))
		}
		out = append(out, additional[at].name)
	}
	return out, nil
}

// startController installs a peer from its kustomization and starts its program, which makes its own certificate. It grants the operator
// the rights on the peer's kinds.
func (r *starter) startController(ctx context.Context, s *sandbox.Sandbox, p peer, module string) error {
	installed, err := s.Install(ctx, sandbox.Controller{
		Manifests: filepath.Join(module, p.kustomization), Without: []string{"APIService"}, WebhookPort: p.port, Certificates: p.certificates(s),
	})
	if err != nil {
		return err
	}
	if err := r.grant(ctx, s, p); err != nil {
		return err
	}
	for _, program := range p.programs {
		if err := r.launch(ctx, s, p, program); err != nil {
			return err
		}
		if err := s.WaitForProgram(ctx, program.name); err != nil {
			return err
		}
	}
	return installed.WaitForWebhooks(ctx)
}

// grant gives the operator the rights in the components config/NAME of this repository.
func (r *starter) grant(ctx context.Context, s *sandbox.Sandbox, p peer) error {
	for _, component := range p.rights {
		files, err := filepath.Glob(filepath.Join(r.root, "config", component, "*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("config/%s has no manifests: %w", component, err)
		}
		for _, file := range files {
			manifest, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			objects, err := decode(bytes.NewReader(manifest), installedKinds...)
			if err != nil {
				return err
			}
			if err := s.Apply(ctx, objects); err != nil {
				return err
			}
		}
	}
	return nil
}
