// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// provider is a provider for specs, alone or with LeaderWorkerSet.
type provider struct {
	name string
	// annotations of a deployment select the provider.
	annotations map[string]string
	// needs are the peers that have to run.
	needs  []string
	labels Labels
}

var (
	underGrove = provider{
		name: specs.Grove.Name, needs: peers.Needed(sandbox.Grove), labels: suite.Grove,
		annotations: map[string]string{render.AnnotationProvider: specs.Grove.Name, render.AnnotationQueue: kai.DefaultQueue},
	}
	underKAI = provider{
		name: specs.KAI.Name, needs: peers.Needed(sandbox.KAI), labels: suite.KAI,
		annotations: map[string]string{render.AnnotationProvider: specs.KAI.Name},
	}
	providers = []provider{underGrove, underKAI, {
		name: "KAI with LeaderWorkerSet", labels: slices.Concat(suite.KAI, suite.LWS),
		needs:       slices.Concat(peers.Needed(sandbox.KAI), peers.Needed(sandbox.LeaderWorkerSet)),
		annotations: map[string]string{render.AnnotationProvider: specs.KAI.Name, render.AnnotationWorkload: specs.LeaderWorkerSet},
	}, {
		name: specs.LeaderWorkerSet, labels: suite.LWS, needs: peers.Needed(sandbox.LeaderWorkerSet),
		annotations: map[string]string{render.AnnotationProvider: specs.Gates.Name, render.AnnotationWorkload: specs.LeaderWorkerSet},
	}}
)

// runs reports whether all peers that the provider needs are selected.
func (p provider) runs() bool {
	return !slices.ContainsFunc(p.needs, func(peer string) bool { return !slices.Contains(peers.Chosen(), peer) })
}

// running returns the providers that specs can run under.
func running() []provider {
	return slices.DeleteFunc(slices.Clone(providers), func(p provider) bool { return !p.runs() })
}

// untested returns an error that names a selected peer that no tested provider needs.
func untested() error {
	for _, peer := range peers.Chosen() {
		if !slices.ContainsFunc(running(), func(p provider) bool { return slices.Contains(p.needs, peer) }) {
			return fmt.Errorf("PEERS=%s tests nothing on %s: Grove needs KAI", strings.Join(peers.Chosen(), ","), peer)
		}
	}
	return nil
}
