// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// inUse is a cache of the topologies and scaling groups that there are.
type inUse struct {
	client.Reader
	topologies []grovev1alpha1.ClusterTopology
	groups     []trellisv1alpha1.ScalingGroup
}

func (u *inUse) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch out := list.(type) {
	case *grovev1alpha1.ClusterTopologyList:
		out.Items = u.topologies
	case *trellisv1alpha1.ScalingGroupList:
		out.Items = u.groups
	}
	return nil
}

// trees are the levels and the node selectors that the cluster cache has a tree for.
func (b *bench) trees() []string {
	var out []string
	b.s.ledger.cluster.KeepTrees(func(levels topology.Levels, selector map[string]string) bool {
		var names []string
		for _, level := range levels {
			names = append(names, level.Domain)
		}
		out = append(out, strings.Join(names, ">")+selector["pool"])
		return true
	})
	slices.Sort(out)
	return out
}

// The counts of a topology's former levels are dropped when the last graph that was created with them is gone.
func TestTreesOfFormerTopologies(t *testing.T) {
	b := newBench(t, Options{})
	sg := newGroup("work", 1, 1, frozen("", "rack"))
	now := hall.DeepCopy()
	now.Spec.Levels, now.Spec.NodeSelector = now.Spec.Levels[:1], map[string]string{"pool": " in pool a"}
	all := &inUse{topologies: []grovev1alpha1.ClusterTopology{*now}, groups: []trellisv1alpha1.ScalingGroup{*sg, *newGroup("front", 1, 1, nil)}}
	b.s.objects.reader = all
	for _, levels := range []topology.Levels{nil, gang.LevelsOf(sg.Spec.Topology), gang.LevelsOfClusterTopology(now), {{Domain: "row", Key: "row"}}} {
		b.s.ledger.cluster.Tree(levels, nil)
	}
	b.s.ledger.cluster.Tree(gang.LevelsOfClusterTopology(now), now.Spec.NodeSelector)
	expect := func(when string, want ...string) {
		t.Helper()
		b.s.round(t.Context(), nil)
		if diff := cmp.Diff(want, b.trees()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("while a graph has the former levels", "", "zone in pool a", "zone>rack")
	all.groups = nil
	b.pass(treesEvery - time.Second)
	expect("too early", "", "zone in pool a", "zone>rack")
	b.pass(time.Second)
	expect("without that graph", "", "zone in pool a")
	all.topologies = nil
	b.pass(treesEvery)
	expect("without the topology", "")
}
