// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/nvlink"
)

// aboutCliques says which pods are in which clique of the NVLink domains that they share by claims of a ComputeDomain.
func aboutCliques(o observed) (text string) {
	n := 0
	for _, claimed := range o.result.Cliques {
		if !claimed.Own && !o.shapes.channels[claimed.Template] {
			continue
		}
		if n++; n <= maxDomains {
			text += ". " + nvlink.Describe("of the claims "+claimed.Template, claimed.Cliques)
		}
	}
	if n > maxDomains {
		text += fmt.Sprintf(". %d more NVLink domains", n-maxDomains)
	}
	return text
}

// maxDomains bounds the number of NVLink domains in a message.
const maxDomains = 8
