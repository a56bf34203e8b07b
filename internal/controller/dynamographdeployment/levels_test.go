// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// Under a provider that makes the pods itself the levels are there when its word and the ClusterTopology agree that they are. A topology
// that has vanished for one of the two never reads as available.
func TestLevelsOfAWorkload(t *testing.T) {
	const kind = nvidiav1beta1.ConditionTopologyLevelsAvailable
	gone := &provider.Levels{Reason: nvidiav1beta1.ReasonTopologyDefinitionNotFound, Message: "Grove: gone"}
	there := &provider.Levels{Available: true, Reason: nvidiav1beta1.ReasonAllTopologyLevelsAvailable, Message: "there"}
	type says struct{ status, reason, message string }
	available := says{"True", "AllTopologyLevelsAvailable", "All required topology levels are available in the cluster topology"}
	cases := map[string]struct {
		// before is the condition's reason, False; "" for none.
		before        string
		workload      provider.Observation
		withoutLevel  bool
		withoutItself bool
		want          says
	}{
		"both find them":                  {workload: provider.Observation{Levels: there}, want: available},
		"the provider has not judged yet": {workload: provider.Observation{}, want: available},
		"the provider does not":           {workload: provider.Observation{Levels: gone}, want: says{"False", "TopologyDefinitionNotFound", "Grove: gone"}},
		"the provider finds them again":   {before: "TopologyDefinitionNotFound", workload: provider.Observation{Levels: there}, want: available},
		"the provider cannot be read, and did not find them": {
			before: "TopologyDefinitionNotFound", workload: provider.Observation{Blind: true}, want: says{"False", "TopologyDefinitionNotFound", "before"},
		},
		"the provider cannot be read, and has said nothing yet": {workload: provider.Observation{Blind: true}, want: available},
		"the level is gone, which the provider does not know yet": {
			workload: provider.Observation{Levels: there}, withoutLevel: true,
			want: says{"False", "TopologyLevelsUnavailable", "Topology level 'rack' is no longer available in the cluster topology"},
		},
		"the level is gone, and the provider cannot be read": {
			workload: provider.Observation{Blind: true}, withoutLevel: true,
			want: says{"False", "TopologyLevelsUnavailable", "Topology level 'rack' is no longer available in the cluster topology"},
		},
		"the topology is gone, which the provider does not know yet": {
			workload: provider.Observation{Levels: there}, withoutItself: true,
			want: says{"False", "TopologyDefinitionNotFound", `ClusterTopology "p" not found, nor a ClusterTopologyBinding of that name; nothing new is placed until it is created`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := fine()
			o.workload = &c.workload
			if c.before != "" {
				o.dgd.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: c.before, Message: "before"}}
			}
			if c.withoutLevel {
				o.clusterTopology.Spec.Levels = o.clusterTopology.Spec.Levels[:1]
			}
			if c.withoutItself {
				o.clusterTopology = nil
			}
			got := meta.FindStatusCondition(statusOf(o, resolved, nil, nil).Conditions, kind)
			if got == nil {
				t.Fatal("the condition is absent")
			}
			if have := (says{string(got.Status), got.Reason, got.Message}); have != c.want {
				t.Errorf("%+v, want %+v", have, c.want)
			}
		})
	}
}
