// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topologybinding_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

func binding(name, selector string, levels ...topologybinding.Level) *topologybinding.Binding {
	b := &topologybinding.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1", ResourceVersion: "42"}}
	if selector != "" {
		b.Annotations = map[string]string{topologybinding.AnnotationNodeSelector: selector}
	}
	b.Spec.Levels = levels
	return b
}

var zone, rack = topologybinding.Level{Domain: "zone", Key: "z"}, topologybinding.Level{Domain: "rack", Key: "r"}

func TestRead(t *testing.T) {
	b := binding("a", "pool=gb200,tier=1", zone, rack)
	b.Annotations["trellis.dev/is-default-topology"] = "true"
	b.Spec.SchedulerTopologyBindings = []topologybinding.SchedulerBinding{{SchedulerName: "kai-scheduler", TopologyReference: "site"}}
	ct, err := topologybinding.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	want := grovev1alpha1.ClusterTopologySpec{
		Levels:                      []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "z"}, {Domain: "rack", Key: "r"}},
		NodeSelector:                map[string]string{"pool": "gb200", "tier": "1"},
		SchedulerTopologyReferences: []grovev1alpha1.SchedulerTopologyReference{{SchedulerName: "kai-scheduler", TopologyReference: "site"}},
	}
	if diff := cmp.Diff(want, ct.Spec); diff != "" {
		t.Error(diff)
	}
	if ct.Name != "a" || ct.UID != "1" || ct.Annotations["trellis.dev/is-default-topology"] != "true" || !ct.FromBinding() ||
		ct.Source() != "ClusterTopologyBinding" || ct.ResourceVersion != "0" {
		t.Errorf("%+v", ct)
	}
}

// TestUnreadable: Bindings with levels that a ClusterTopology must not have, or with an invalid node selector, are no topologies.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct {
		b    *topologybinding.Binding
		want string
	}{
		"no levels":        {binding("a", ""), "spec.levels: has 0 levels"},
		"17 levels":        {binding("a", "", slices.Repeat([]topologybinding.Level{zone}, 17)...), "spec.levels: has 17 levels"},
		"a domain twice":   {binding("a", "", zone, topologybinding.Level{Domain: "zone", Key: "k"}), `spec.levels[1].domain: "zone"`},
		"a key twice":      {binding("a", "", zone, topologybinding.Level{Domain: "rack", Key: "z"}), `spec.levels[1].key: "z"`},
		"no selector":      {binding("a", "pool", zone), "metadata.annotations[trellis.dev/node-selector]"},
		"no label's value": {binding("a", "pool=a b", zone), "metadata.annotations[trellis.dev/node-selector]"},
		"17 labels": {binding("a", strings.Join(strings.Split("abcdefghijklmnopq", ""), "=x,")+"=x", zone),
			"has 17 labels; use at most 16"},
	} {
		t.Run(name, func(t *testing.T) {
			if ct, err := topologybinding.Read(c.b); err == nil || ct != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v, want %q", ct, err, c.want)
			}
		})
	}
}

// TestOursIsNoSource: a Binding written by Trellis for Grove is no topology. It may exist longer than its ClusterTopology.
func TestOursIsNoSource(t *testing.T) {
	ct := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	ct.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "z"}}
	ours, err := grove.RenderBinding(ct, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := topologybinding.Read(ours); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	ours.OwnerReferences[0].APIVersion, ours.OwnerReferences[0].Kind = "example.com/v1", "Site"
	if got, err := topologybinding.Read(ours); got == nil || err != nil {
		t.Errorf("of another owner: %v, %v", got, err)
	}
}

func TestMerge(t *testing.T) {
	ct := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	ct.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "z"}}
	ours := binding("d", "", rack)
	ours.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(ct, grovev1alpha1.GroupVersion.WithKind(grovev1alpha1.KindClusterTopology))}
	got := topologybinding.Merge([]*grovev1alpha1.ClusterTopology{ct}, []*topologybinding.Binding{
		binding("a", "", rack), binding("b", "", rack), binding("c", ""), ours,
	})
	if len(got) != 2 || got[0] != ct || got[1].Name != "b" || !got[1].FromBinding() {
		t.Errorf("%v", got)
	}
}
