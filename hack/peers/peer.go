// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Sources are where the peers are on this machine.
type Sources struct {
	// Root of this repository's clone.
	Root string
	// Src and Bin are PEERS_SRC and PEERS_BIN.
	Src, Bin string
	// peers are those to run: of all, what the variable PEERS names (KAI,Grove,LWS).
	peers []peer
}

// errNoSources says in one line why nothing can run.
var errNoSources = errors.New("PEERS_SRC (sources kai/ and grove/) and PEERS_BIN (their programs) are not both set: see hack/peers/doc.go")

// FindSources returns what the environment names, or why that does not do.
func FindSources(root string) (Sources, error) {
	s := Sources{Src: os.Getenv("PEERS_SRC"), Bin: os.Getenv("PEERS_BIN")}
	if s.Src == "" || s.Bin == "" {
		return s, errNoSources
	}
	var err error
	if s.Root, err = filepath.Abs(root); err != nil {
		return s, err
	}
	for _, p := range all {
		if only := os.Getenv("PEERS"); only != "" && !slices.Contains(strings.Split(only, ","), p.name) {
			continue
		}
		for _, program := range p.programs {
			if _, err := os.Stat(filepath.Join(s.Bin, program.name)); err != nil && p.module == "" {
				return s, fmt.Errorf("PEERS_BIN: %w", err)
			}
		}
		s.peers = append(s.peers, p)
	}
	return s, nil
}

// Has says whether a peer is one of those to run.
func (s Sources) Has(name string) bool {
	return slices.ContainsFunc(s.peers, func(p peer) bool { return p.name == name })
}

// peer is one of the three.
type peer struct {
	name      string
	namespace string
	// chart and crds are folders in Src, or in the module.
	chart string
	crds  []string
	// module is the Go module to take it from.
	module string
	// port of its webhooks.
	port     int
	programs []program
}

type program struct {
	name    string
	account string
	args    []string
	// config is the text of its configuration file, where it has one; DIR in it is the folder of the certificate.
	config string
}

func kaiArgs(metrics, probes int) []string {
	return []string{fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics), fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", probes)}
}

// all, in the order they start: Grove is scheduled by KAI.
var all = []peer{
	{
		name: "KAI", namespace: "kai-scheduler", chart: "kai/deployments/kai-scheduler", crds: []string{"kai/deployments/kai-scheduler/crds"}, port: 9443,
		programs: []program{
			{name: "kai-scheduler", account: "scheduler", args: []string{
				"--scheduler-name=kai-scheduler", "--namespace=kai-scheduler", "--listen-address=127.0.0.1:28080", "--plugin-server-port=28081", "--log-json",
			}},
			{name: "kai-binder", account: "binder", args: kaiArgs(28082, 28083)},
			{name: "kai-podgrouper", account: "pod-grouper", args: kaiArgs(28084, 28085)},
			{name: "kai-podgroupcontroller", account: "podgroup-controller", args: []string{"--health-probe-bind-address=127.0.0.1:28087"}},
			{name: "kai-queuecontroller", account: "queue-controller", args: []string{"--enable-webhook=false", "--metrics-listen-address=127.0.0.1:28089"}},
		},
	},
	{
		name: "Grove", namespace: "grove-system", chart: "grove/operator/charts", port: 29443,
		crds:     []string{"grove/operator/api/core/v1alpha1/crds", "grove/scheduler/api/core/v1alpha1/crds"},
		programs: []program{{name: "grove-operator", account: "grove-operator", config: groveConfig}},
	},
	{
		name: "LWS", namespace: "lws-system", chart: "charts/lws", crds: []string{"charts/lws/crds"}, module: lwsModule, port: 39443,
		programs: []program{{name: "lws", account: "lws-controller-manager", config: lwsConfig}},
	},
}

const groveConfig = `
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
runtimeClientConnection: {qps: 100, burst: 150}
leaderElection: {enabled: false}
server:
  webhooks: {port: 29443, bindAddress: 127.0.0.1, serverCertDir: DIR, certProvisionMode: manual}
  healthProbes: {port: 29444, bindAddress: 127.0.0.1}
  metrics: {port: 29445, bindAddress: 127.0.0.1}
controllers:
  podCliqueSet: {concurrentSyncs: 3}
  podClique: {concurrentSyncs: 3}
  podCliqueScalingGroup: {concurrentSyncs: 3}
scheduler:
  defaultProfileName: kai-scheduler
  profiles: [{name: default-scheduler}, {name: kai-scheduler}]
topologyAwareScheduling: {enabled: true}
logLevel: info
logFormat: json
authorizer: {enabled: false}
network: {autoMNNVLEnabled: false}
`

const lwsConfig = `
apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
webhook: {port: 39443, host: 127.0.0.1, certDir: DIR}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "127.0.0.1:39081"}
`

// podGroupWebhook of KAI: its operator would register it.
const podGroupWebhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kai-podgroups}
webhooks:
- name: podgroups.kai.example.com
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: podgroup-controller, namespace: kai-scheduler, path: /validate-scheduling-run-ai-v2alpha2-podgroup}}
  rules: [{apiGroups: [scheduling.run.ai], apiVersions: [v2alpha2], operations: [CREATE, UPDATE], resources: [podgroups]}]
  sideEffects: None
`

// moduleDir is where a module is on this machine, downloaded if need be.
func moduleDir(module string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w: %s", module, err, stderr.String())
	}
	answer := struct{ Dir string }{}
	return answer.Dir, json.Unmarshal(out, &answer)
}

// build builds the program of a module into dir.
func build(module, dir, name string) error {
	from, err := moduleDir(module)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "./cmd")
	cmd.Dir, cmd.Env = from, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", module, err, out)
	}
	return nil
}
