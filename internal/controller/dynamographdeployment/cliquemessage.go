// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/nvlink"
)

// aboutCliques describes the NVLink domains that pods share through claims of a ComputeDomain: which pods are in which clique.
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
