// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
)

const (
	// maxRealNodes is the number of nodes that their network has addresses for.
	maxRealNodes = 100
	// cniPlugin is the path of the CNI plugin bridge on Debian.
	cniPlugin = "/usr/lib/cni/bridge"
)

// RealNodes are nodes with a kubelet, containerd and DNS, whose pods run. They need Linux, root, and some Debian packages.
//
// Each node is a set of mount, PID, network, UTS and IPC namespaces. Nodes and pods can reach each other, the API server and the DNS
// server, and nothing else. Cluster IPs of Services do not work, except that of the API server.
type RealNodes struct {
	Count int
	// GPUs of each node, which exist only as names; default 8.
	GPUs int
	// Images are imported on each node, in addition to localhost/busybox:1.
	Images []Image
	// Archives are further images to import: files in the format of docker save.
	Archives []string
	// OperatorInPods makes the API server call webhooks at the endpoints of their Services, for InstallInPods. Without it the Services
	// are aliases of localhost, where Options.Operator runs the manager.
	OperatorInPods bool
}

// realState is what later commands must know about real nodes.
type realState struct {
	Count    int                   `json:"count"`
	GPUs     int                   `json:"gpus"`
	Programs binaries.NodePrograms `json:"programs"`
	// OperatorInPods is the option of RealNodes.
	OperatorInPods bool `json:"operatorInPods,omitempty"`
}

// complete sets defaults and rejects options that do not work on this machine.
func (r RealNodes) complete() (RealNodes, error) {
	r.GPUs = cmp.Or(r.GPUs, 8)
	switch {
	case r.Count == 0:
		return r, nil
	case r.Count < 0 || r.Count > maxRealNodes:
		return r, fmt.Errorf("%d real nodes: want at most %d", r.Count, maxRealNodes)
	case runtime.GOOS != "linux":
		return r, fmt.Errorf("real nodes need Linux, and this is %s", runtime.GOOS)
	case os.Geteuid() != 0:
		return r, errors.New("real nodes need root, for namespaces, mounts and cgroups")
	}
	for i, file := range r.Archives {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return r, err
		}
		r.Archives[i] = absolute
	}
	return r, checkPackages()
}

// RealNodePackages are the Debian packages that real nodes need and this machine lacks.
func RealNodePackages() []string {
	var missing []string
	for _, p := range []struct{ name, program string }{
		{"containerd", "/usr/bin/containerd"}, {"runc", "runc"}, {"containernetworking-plugins", cniPlugin}, {"util-linux", "nsenter"},
	} {
		if _, err := exec.LookPath(p.program); err != nil {
			missing = append(missing, p.name)
		}
	}
	if _, err := staticBusybox(); err != nil {
		missing = append(missing, "busybox-static")
	}
	return missing
}

func checkPackages() error {
	missing := RealNodePackages()
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	return fmt.Errorf("real nodes need these packages: %s; install them with: apt-get install -y %s", names, names)
}

// staticBusybox finds a statically linked busybox, for images.
func staticBusybox() (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", err
	}
	file, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return "", fmt.Errorf("%s needs libraries", path)
	}
	return path, nil
}

// newRealState builds the programs of real nodes. It is nil without real nodes.
func newRealState(ctx context.Context, opts Options) (*realState, error) {
	if opts.Real.Count == 0 {
		return nil, nil
	}
	programs, err := binaries.EnsureNodePrograms(ctx, opts.Root, opts.Progress)
	return &realState{Count: opts.Real.Count, GPUs: opts.Real.GPUs, Programs: programs, OperatorInPods: opts.Real.OperatorInPods}, err
}

// RealNodes are the names of the real nodes.
func (s *Sandbox) RealNodes() []string {
	if s.state.Real == nil {
		return nil
	}
	var names []string
	for i := range s.state.Real.Count {
		names = append(names, fmt.Sprintf("real-%d", i))
	}
	return names
}

func (s *Sandbox) isReal(node string) bool { return slices.Contains(s.RealNodes(), node) }

// realPrograms are the names of the processes for real nodes. One process stands for all processes of a node.
func (s *Sandbox) realPrograms() []string {
	if s.state.Real == nil {
		return nil
	}
	return slices.Concat([]string{binaries.NodeSwitch, binaries.CoreDNS}, s.RealNodes())
}

// realServerArgs are the flags of the API server for real nodes: kubelets can access only the objects of their own node, and connections
// to nodes, pods and webhooks pass through the switch.
func (s *Sandbox) realServerArgs() []string {
	if s.state.Real == nil {
		return []string{"--authorization-mode=RBAC"}
	}
	return []string{"--authorization-mode=Node,RBAC", "--egress-selector-config-file=" + egressFile,
		"--kubelet-preferred-address-types=InternalIP", fmt.Sprintf("--enable-aggregator-routing=%t", s.state.Real.OperatorInPods)}
}

// nodeMonitorArgs are the flags of the node controller. Only with real nodes does it mark nodes without heartbeats as dead; simulated
// nodes then send heartbeats as well.
func (s *Sandbox) nodeMonitorArgs() []string {
	if s.state.Real == nil {
		return []string{"--node-monitor-grace-period=87600h"}
	}
	return []string{"--node-monitor-grace-period=20s", "--node-monitor-period=2s"}
}

// simulatedLease is the lease duration of simulated nodes in seconds; 0 for no leases.
func (s *Sandbox) simulatedLease() int {
	if s.state.Real == nil {
		return 0
	}
	return 12
}

// writeEgress writes the configuration with which the API server connects to nodes, pods and webhooks through the switch.
func (s *Sandbox) writeEgress() error {
	var text bytes.Buffer
	fmt.Fprintf(&text, `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %q
`, s.path(nodeSocket))
	return writeFile(s.path(egressFile), text.Bytes())
}
