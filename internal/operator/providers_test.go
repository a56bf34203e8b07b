// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// What is described can be used, and the other way round: the planned ones by a placer, the others by a workload.
func TestEveryProviderIsConstructed(t *testing.T) {
	all, _ := allProviders(nil, nil, nil, "", nil)
	registry := provider.New(provider.Options{}, all)
	want := []string{specs.LeaderWorkerSet}
	for _, spec := range specs.All {
		want = append(want, spec.Name)
		if (registry.Placer(spec.Name) != nil) != spec.Planned || (registry.Workload(spec.Name) != nil) == spec.Planned {
			t.Errorf("%s, planned %t: placer %v, workload %v", spec.Name, spec.Planned, registry.Placer(spec.Name), registry.Workload(spec.Name))
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, registry.Names()); diff != "" {
		t.Errorf("described and constructed (-want +got):\n%s", diff)
	}
}
