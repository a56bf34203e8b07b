// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"slices"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// peer is a system that can run in a sandbox.
type peer struct {
	name      string
	namespace string
	// sources is the folder of the peer in PEERS_SRC; from is the commit to clone if the variable is not set.
	sources string
	from    pinned
	// chart and crds are folders in PEERS_SRC, or in the module.
	chart string
	crds  []string
	// chartRelease is the release name of the chart; default: the name of the peer.
	chartRelease string
	// module is the Go module of the peer. main is the package to build; default ./cmd.
	module, main string
	// buildEnv are additional NAME=value entries for the build.
	buildEnv []string
	// kustomization is a folder of the module, for a peer that is installed from a kustomization instead of a chart.
	kustomization string
	// own are the manifests of a peer with neither chart nor kustomization.
	own []byte
	// rights are the components of this repository's config with the operator's rights on the peer's kinds. operator are
	// flags that the operator needs.
	rights, operator []string
	// port of the webhooks; 0 for none.
	port     int
	programs []program
}

type program struct {
	name    string
	account string
	args    []string
	// ports are the ports that the program listens on. It has started when it listens on the first.
	ports []int
	// config is the content of the configuration file; empty for none. DIR in it is replaced by the quoted folder of the certificate. The
	// environment variable configVariable, or without one the flag --config, names the file.
	config, configVariable string
	// env are additional NAME=value entries.
	env []string
}

// kaiProgram is a program of KAI with the flags of a controller manager.
func kaiProgram(name, account string, metrics, probes int) program {
	return program{name: name, account: account, ports: []int{probes, metrics}, args: []string{
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics), fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", probes),
	}}
}

// podGroupController is the program of KAI with the webhook.
func podGroupController() program {
	p := kaiProgram("kai-podgroupcontroller", "podgroup-controller", 28086, 28087)
	p.ports = append([]int{9443}, p.ports...)
	return p
}

// all are all peers in start order.
var all = slices.Concat(makers, additional)

// additional are the peers that run with any provider.
var additional = []peer{kueuePeer, karpenterPeer}

// makers are the peers that place or make pods. KAI is before Grove, whose pods it schedules.
var makers = []peer{
	{
		name: string(sandbox.KAI), namespace: "kai-scheduler", sources: "kai", chart: "kai/deployments/kai-scheduler",
		from: pinned{"v0.17.0", "https://github.com/kai-scheduler/KAI-Scheduler", "f218c69bee5e5fc6031273ba555d09916b1ca89a"},
		crds: []string{"kai/deployments/kai-scheduler/crds"}, port: 9443,
		programs: []program{
			{name: "kai-scheduler", account: "scheduler", ports: []int{28080, 28081}, args: []string{
				"--scheduler-name=kai-scheduler", "--namespace=kai-scheduler", "--listen-address=127.0.0.1:28080", "--plugin-server-port=28081",
				"--log-json",
			}},
			kaiProgram("kai-binder", "binder", 28082, 28083),
			kaiProgram("kai-podgrouper", "pod-grouper", 28084, 28085),
			podGroupController(),
			{name: "kai-queuecontroller", account: "queue-controller", ports: []int{28089}, args: []string{
				"--enable-webhook=false", "--metrics-listen-address=127.0.0.1:28089",
			}},
		},
	},
	{
		name: string(sandbox.Grove), namespace: "grove-system", sources: "grove", chart: "grove/operator/charts", port: 29443,
		from:     pinned{"v0.1.0-alpha.11", "https://github.com/ai-dynamo/grove", "8fa3ece93434d7c0005605b7dc4b0e23610af88b"},
		crds:     []string{"grove/operator/api/core/v1alpha1/crds", "grove/scheduler/api/core/v1alpha1/crds"},
		programs: []program{{name: "grove-operator", account: "grove-operator", config: groveConfig, ports: []int{29443, 29444, 29445}}},
	},
	{
		name: string(sandbox.LeaderWorkerSet), namespace: "lws-system", chartRelease: "lws", chart: "charts/lws",
		crds:   []string{"charts/lws/crds"},
		module: lwsModule, port: 39443,
		programs: []program{{name: "lws", account: "lws-controller-manager", config: lwsConfig, ports: []int{39443, 39081}}},
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

// podGroupWebhook is the webhook configuration that KAI's operator would create.
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
