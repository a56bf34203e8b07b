// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

type (
	clusterTopology = grovev1alpha1.ClusterTopology
	topologyLevel   = grovev1alpha1.TopologyLevel
)

func TestTopology(t *testing.T) {
	tests := map[string]struct {
		change func(*clusterTopology)
		want   []string
	}{
		"fine": {change: func(*clusterTopology) {}},
		"a leading digit and an upper-case key": {change: func(ct *clusterTopology) {
			ct.Spec.Levels = []topologyLevel{{Domain: "0-rack", Key: "Rack_1.x"}}
		}},
		"number of levels: none": {
			change: func(ct *clusterTopology) { ct.Spec.Levels = nil },
			want:   []string{"spec.levels: Required value: spec.levels must have at least one level, the broadest first"},
		},
		"number of levels: 17": {
			change: func(ct *clusterTopology) {
				ct.Spec.Levels = nil
				for i := range 17 {
					ct.Spec.Levels = append(ct.Spec.Levels, topologyLevel{Domain: fmt.Sprintf("l%d", i), Key: fmt.Sprintf("example.com/l%d", i)})
				}
			},
			want: []string{"spec.levels: Too many: 17: must have at most 16 items"},
		},
		"levels: twice": {
			change: func(ct *clusterTopology) { ct.Spec.Levels[2] = ct.Spec.Levels[1] },
			want: []string{
				`spec.levels[2].domain: Duplicate value: "block": domain must be unique across all levels; levels[1] has it already`,
				`spec.levels[2].key: Duplicate value: "example.com/block": key must be unique across all levels; levels[1] has it already`,
			},
		},
		"levels: empty and malformed": {
			change: func(ct *clusterTopology) { ct.Spec.Levels = []topologyLevel{{}, {Domain: "Zone", Key: "a/b/c"}} },
			want: []string{
				`spec.levels[0].domain: Required value: name the level, e.g. rack`,
				`spec.levels[0].key: Required value: name the node label, e.g. topology.kubernetes.io/zone`,
				`spec.levels[1].domain: Invalid value: "Zone": domain "Zone" is not a valid topology domain; must match ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$ and have at most 63 characters`,
				`spec.levels[1].key: Invalid value: "a/b/c": not a node label key: a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and ` +
					`end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with ` +
					`an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
			},
		},
		"node selector: value": {
			change: func(ct *clusterTopology) { ct.Spec.NodeSelector = map[string]string{"pool": strings.Repeat("x", 64)} },
			want:   []string{`spec.nodeSelector[pool]: Invalid value: "` + strings.Repeat("x", 64) + `": must be no more than 63 bytes`},
		},
		"scheduler references: empty, twice": {
			change: func(ct *clusterTopology) {
				ct.Spec.SchedulerTopologyReferences = []grovev1alpha1.SchedulerTopologyReference{{}, {SchedulerName: "kai-scheduler", TopologyReference: "a"}, {SchedulerName: "kai-scheduler", TopologyReference: "b"}}
			},
			want: []string{
				`spec.schedulerTopologyReferences[0].schedulerName: Required value: name the scheduler, e.g. kai-scheduler`,
				`spec.schedulerTopologyReferences[0].topologyReference: Required value: name that scheduler's topology object`,
				`spec.schedulerTopologyReferences[2].schedulerName: Duplicate value: "kai-scheduler": name each scheduler once`,
			},
		},
	}
	covered := map[string]bool{}
	for name, tc := range tests {
		rule, _, _ := strings.Cut(name, ": ")
		covered[rule] = true
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(Topology(newTopology(tc.change)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
	for _, check := range topologyChecks {
		if !covered[check.name] {
			t.Errorf("no case for rule %q", check.name)
		}
	}
}

func TestTopologyUpdate(t *testing.T) {
	broken := newTopology(func(ct *clusterTopology) { ct.Spec.Levels[0].Domain = "Zone" })
	tests := map[string]struct {
		old    *clusterTopology
		change func(*clusterTopology)
		want   int
	}{
		"level removed": {old: newTopology(), change: func(ct *clusterTopology) { ct.Spec.Levels = ct.Spec.Levels[:1] }},
		"newly broken":  {old: newTopology(), change: func(ct *clusterTopology) { ct.Spec.Levels[1].Domain = "" }, want: 1},
		"broken before": {old: broken, change: func(ct *clusterTopology) { ct.Spec.Levels[1].Key = "example.com/other" }},
		"metadata only": {old: broken, change: func(ct *clusterTopology) { ct.Labels = map[string]string{"a": "b"} }},
		"being deleted": {old: newTopology(), change: func(ct *clusterTopology) { ct.DeletionTimestamp, ct.Spec.Levels = &metav1.Time{}, nil }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			updated := tc.old.DeepCopy()
			tc.change(updated)
			if errs := TopologyUpdate(updated, tc.old); len(errs) != tc.want {
				t.Errorf("got %d errors, want %d: %v", len(errs), tc.want, errs.ToAggregate())
			}
		})
	}
}

func TestTopologyWarnings(t *testing.T) {
	users := []UserOf{{"team", "llm", []string{"rack", "zone"}}, {"team", "chat", []string{"rack"}}, {"other", "idle", nil}}
	many := make([]UserOf, 40)
	for i := range many {
		many[i] = UserOf{"team", fmt.Sprintf("graph-%02d", i), []string{"rack"}}
	}
	tests := map[string]struct {
		users  []UserOf
		change func(*clusterTopology)
		gone   bool
		want   []string
	}{
		"nothing":              {users: users, change: func(*clusterTopology) {}},
		"unused level removed": {users: users, change: func(ct *clusterTopology) { ct.Spec.Levels = slices.Delete(ct.Spec.Levels, 1, 2) }},
		"level removed": {
			users:  users,
			change: func(ct *clusterTopology) { ct.Spec.Levels = slices.Delete(ct.Spec.Levels, 2, 3) },
			want:   []string{`level "rack" is removed while in use; running pods stay where they are (team/chat, team/llm)`},
		},
		"key changed": {
			users:  users,
			change: func(ct *clusterTopology) { ct.Spec.Levels[0].Key = "example.com/zone" },
			want:   []string{`level "zone" changes its key from topology.kubernetes.io/zone to example.com/zone while in use; running pods stay where they are (team/llm)`},
		},
		"order changed": {
			users:  users,
			change: func(ct *clusterTopology) { slices.Reverse(ct.Spec.Levels[1:3]) },
			want:   []string{`level "rack" changes its place in the order of levels while in use; running pods stay where they are (team/chat, team/llm)`},
		},
		"level put in between": {users: users, change: func(ct *clusterTopology) {
			ct.Spec.Levels = slices.Insert(ct.Spec.Levels, 1, topologyLevel{Domain: "row", Key: "example.com/row"})
		}},
		"deleted": {
			users: users, gone: true,
			want: []string{`ClusterTopology "gb200" is in use; running pods stay, and gangs that need one of its levels wait until it is back (other/idle, team/chat, team/llm)`},
		},
		"deleted, nobody uses it": {gone: true},
		"many users": {
			users:  many,
			change: func(ct *clusterTopology) { ct.Spec.Levels = slices.Delete(ct.Spec.Levels, 2, 3) },
			want: []string{`level "rack" is removed while in use; running pods stay where they are (team/graph-00, team/graph-01, team/graph-02, team/graph-03, ` +
				`team/graph-04, team/graph-05, team/graph-06, team/graph-07, team/graph-08, team/graph-09 and 30 more)`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var updated *clusterTopology
			if !tc.gone {
				updated = newTopology(tc.change)
			}
			if diff := cmp.Diff(tc.want, TopologyWarnings(updated, newTopology(), tc.users)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
