// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"path/filepath"

	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// Names of the programs of real nodes: see hack/kubelet and hack/coredns.
const (
	Kubelet    = "kubelet"
	NodeInit   = "node-init"
	NodeSwitch = "node-switch"
	NodeLink   = "node-link"
	GPUPlugin  = "gpu-plugin"
	CoreDNS    = "coredns"
)

// KubeletNames are the programs of hack/kubelet.
var KubeletNames = []string{Kubelet, NodeInit, NodeSwitch, NodeLink, GPUPlugin}

// NodePrograms are the paths of the programs of real nodes.
type NodePrograms struct {
	// Dir is the directory with the programs of hack/kubelet.
	Dir string `json:"dir"`
	// CoreDNS is the path of the program of hack/coredns.
	CoreDNS string `json:"coreDNS"`
}

// EnsureNodePrograms returns the programs of real nodes, and builds them if they are missing.
func EnsureNodePrograms(ctx context.Context, root string, report progress.Func) (NodePrograms, error) {
	dir, err := kubelet.ensure(ctx, root, report)
	if err != nil {
		return NodePrograms{}, err
	}
	dns, err := coreDNS.ensure(ctx, root, report)
	return NodePrograms{Dir: dir, CoreDNS: filepath.Join(dns, CoreDNS)}, err
}
