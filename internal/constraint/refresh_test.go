// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

func TestRefreshed(t *testing.T) {
	levels := func(of ...string) (out []trellisv1alpha1.ResolvedLevel) {
		for i := 0; i < len(of); i += 2 {
			out = append(out, trellisv1alpha1.ResolvedLevel{Domain: of[i], Key: of[i+1]})
		}
		return out
	}
	frozen := func(change func(*trellisv1alpha1.ResolvedTopology)) *trellisv1alpha1.ResolvedTopology {
		out := &trellisv1alpha1.ResolvedTopology{ClusterTopology: "p", Levels: levels("zone", "z", "block", "b", "rack", "r"), GraphPackDomain: "zone", PackDomain: "rack"}
		change(out)
		return out
	}
	keep := func(*trellisv1alpha1.ResolvedTopology) {}
	annotated := Statement{Annotated: Annotated{Topology: "p", Required: "z"}}
	for name, tc := range map[string]struct {
		other    *trellisv1alpha1.ResolvedTopology
		stated   Statement
		now      []string
		selector map[string]string
		want     bool
	}{
		"nothing has changed":              {now: []string{"zone", "z", "block", "b", "rack", "r"}},
		"another key":                      {now: []string{"zone", "z", "block", "b", "rack", "s"}, want: true},
		"another node selector":            {now: []string{"zone", "z", "block", "b", "rack", "r"}, selector: map[string]string{"pool": "gpu"}, want: true},
		"a level less that is not in use":  {now: []string{"zone", "z", "rack", "r"}, want: true},
		"a level in use is gone":           {now: []string{"zone", "z", "block", "b"}},
		"levels in use have changed order": {now: []string{"rack", "r", "block", "b", "zone", "z"}},
		"a sibling has the new key already": {
			other: frozen(func(t *trellisv1alpha1.ResolvedTopology) { t.Levels[2].Key = "s" }), now: []string{"zone", "z", "block", "b", "rack", "s"}, want: true,
		},
		"a sibling follows another topology":  {other: frozen(func(t *trellisv1alpha1.ResolvedTopology) { t.ClusterTopology = "q" }), now: []string{"zone", "z", "rack", "s"}},
		"an annotation names another level":   {stated: annotated, now: []string{"zone", "z", "block", "b", "rack", "s"}, want: true},
		"an annotation names the former key":  {stated: annotated, now: []string{"zone", "y", "block", "b", "rack", "r"}},
		"there is no topology of this name":   {},
		"a sibling of the former key follows": {other: frozen(keep), now: []string{"zone", "y", "block", "b", "rack", "r"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var now *grovev1alpha1.ClusterTopology
			if tc.now != nil {
				now = &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: grovev1alpha1.ClusterTopologySpec{NodeSelector: tc.selector}}
				for _, level := range levels(tc.now...) {
					now.Spec.Levels = append(now.Spec.Levels, grovev1alpha1.TopologyLevel{Domain: level.Domain, Key: level.Key})
				}
			}
			before := map[string]*trellisv1alpha1.ResolvedTopology{"a": frozen(keep), "free": nil}
			if tc.other != nil {
				before["b"] = tc.other
			}
			got := Refreshed(before, tc.stated, now)
			if (got != nil) != tc.want {
				t.Fatalf("got %v", got)
			}
			if got == nil {
				return
			}
			var groups []*trellisv1alpha1.ScalingGroup
			for component, was := range before {
				want := was.DeepCopy()
				if want != nil {
					want.Levels, want.NodeSelector = levels(tc.now...), tc.selector
				}
				if diff := cmp.Diff(want, got[component]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", component, diff)
				}
				groups = append(groups, &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Topology: got[component]}})
			}
			if Mixed(groups) {
				t.Error("the groups have different levels")
			}
			groups[0].Spec.Topology, groups[1].Spec.Topology = before["a"], got["a"]
			if !Mixed(groups) {
				t.Error("groups of which one is written look alike")
			}
		})
	}
}
