// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// A topology that omits the block says that one path means two racks; nodes that the topology does not cover do not count.
func TestOmittedLevel(t *testing.T) {
	zone := grovev1alpha1.TopologyLevel{Domain: "zone", Key: "topology.kubernetes.io/zone"}
	block := grovev1alpha1.TopologyLevel{Domain: "block", Key: "topology.trellis.dev/block"}
	rack := grovev1alpha1.TopologyLevel{Domain: "rack", Key: "topology.trellis.dev/rack"}
	host := grovev1alpha1.TopologyLevel{Domain: "host", Key: "kubernetes.io/hostname"}
	nodes := simulated.DefaultShape.Nodes()
	for i := range nodes {
		nodes[i].Labels[host.Key] = nodes[i].Name
	}
	twin := *nodes[0].DeepCopy()
	twin.Name = "twin"
	for name, tc := range map[string]struct {
		levels   []grovev1alpha1.TopologyLevel
		selector map[string]string
		more     []corev1.Node
		reason   string
		message  []string
	}{
		"all levels":     {levels: []grovev1alpha1.TopologyLevel{zone, block, rack, host}, reason: "HierarchyValid"},
		"upside down":    {levels: []grovev1alpha1.TopologyLevel{host, rack, zone}, reason: "LevelsReversed", message: []string{"level 'host' (kubernetes.io/hostname) is above level 'rack'"}},
		"the block":      {levels: []grovev1alpha1.TopologyLevel{zone, rack, host}, reason: "LevelOmitted", message: []string{"rack zone-0/rack-0 covers 2 places"}},
		"one block only": {levels: []grovev1alpha1.TopologyLevel{zone, rack, host}, selector: map[string]string{block.Key: "block-1"}, reason: "HierarchyValid"},
		"and a hostname twice": {
			levels: []grovev1alpha1.TopologyLevel{zone, rack, host}, more: []corev1.Node{twin},
			reason: "DuplicateHostnames", message: []string{"twin", "rack zone-0/rack-0 covers 2 places"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ct := &grovev1alpha1.ClusterTopology{}
			ct.Spec.Levels, ct.Spec.NodeSelector = tc.levels, tc.selector
			status := statusOf(ct, scanNodes(ct, append(tc.more, nodes...)), nil, nil)
			c := meta.FindStatusCondition(status.Conditions, grovev1alpha1.ConditionHierarchyConsistent)
			if c == nil || c.Reason != tc.reason || (c.Status == metav1.ConditionTrue) != (tc.reason == "HierarchyValid") {
				t.Fatalf("condition %+v, want reason %s", c, tc.reason)
			}
			for _, part := range tc.message {
				if !strings.Contains(c.Message, part) {
					t.Errorf("message %q lacks %q", c.Message, part)
				}
			}
		})
	}
}
