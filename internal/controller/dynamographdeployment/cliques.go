// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"github.com/trellis-k8s/trellis/internal/nvlink"
)

// aboutCliques says, of the NVLink domains that pods share by the claims of a ComputeDomain, which pods are in which clique.
func aboutCliques(o observed) (text string) {
	for _, claimed := range o.result.Cliques {
		if o.shapes.channels[claimed.Template] {
			text += ". " + nvlink.Describe("of the claims "+claimed.Template, claimed.Cliques)
		}
	}
	return text
}
