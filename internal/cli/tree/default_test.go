// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// TestDefaultTopology: a deployment without a constraint is shown in the topology that the operator takes for the default.
func TestDefaultTopology(t *testing.T) {
	epoch := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	topology := func(name string, age time.Duration, isDefault bool, change ...func(*grovev1alpha1.ClusterTopology)) *grovev1alpha1.ClusterTopology {
		ct := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(epoch.Add(-age))}}
		ct.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "rack", Key: "example/" + name}}
		if isDefault {
			ct.Annotations = map[string]string{constraint.AnnotationDefault: "true"}
		}
		for _, f := range change {
			f(ct)
		}
		return ct
	}
	deleted := func(ct *grovev1alpha1.ClusterTopology) { ct.DeletionTimestamp = ptr.To(metav1.NewTime(epoch)) }
	for name, tc := range map[string]struct {
		topologies []*grovev1alpha1.ClusterTopology
		want       string
	}{
		"none":                     {nil, ""},
		"the only one":             {[]*grovev1alpha1.ClusterTopology{topology("a", 1, false)}, "a"},
		"none of two":              {[]*grovev1alpha1.ClusterTopology{topology("a", 1, false), topology("b", 1, false)}, ""},
		"the one that is marked":   {[]*grovev1alpha1.ClusterTopology{topology("a", 1, false), topology("b", 1, true)}, "b"},
		"the oldest":               {[]*grovev1alpha1.ClusterTopology{topology("a", time.Minute, true), topology("b", time.Hour, true)}, "b"},
		"of one age, by name":      {[]*grovev1alpha1.ClusterTopology{topology("b", 1, true), topology("a", 1, true)}, "a"},
		"not one that is deleted":  {[]*grovev1alpha1.ClusterTopology{topology("a", time.Hour, true, deleted), topology("b", 1, true)}, "b"},
		"only one that is deleted": {[]*grovev1alpha1.ClusterTopology{topology("a", time.Hour, true, deleted), topology("b", 1, false)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "plain"}}
			w := whatif.World{Topologies: tc.topologies, Graphs: []*nvidiav1beta1.DynamoGraphDeployment{dgd}}
			if got := tree.Build(tree.Of(&w)).Graphs[0].Topology; got != tc.want {
				t.Errorf("topology %q, want %q", got, tc.want)
			}
		})
	}
}

// TestBindingIsNamed: the tree of a ClusterTopologyBinding names that kind.
func TestBindingIsNamed(t *testing.T) {
	b := &topologybinding.Binding{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	b.Spec.Levels = []topologybinding.Level{{Domain: "rack", Key: "example/rack"}}
	w := whatif.World{Topologies: topologybinding.Merge(nil, []*topologybinding.Binding{b})}
	report := tree.Build(tree.Of(&w))
	if got := report.Text(text.Page{}); !strings.Contains(got, "ClusterTopologyBinding site: rack > node") {
		t.Errorf("the text is\n%s", got)
	}
	if report.Trees[0].TopologyKind != "ClusterTopologyBinding" {
		t.Errorf("the tree is %+v", report.Trees[0])
	}
}
