// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// localVolume is a volume on one host.
func localVolume(host string, i int) *corev1.PersistentVolume {
	v := pv(fmt.Sprintf("%s-v%d", host, i), "local", host)
	v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = corev1.LabelHostname
	return v
}

// comparedBy plans a pod with a claim among hosts with four local volumes each, and returns how often the affinity of a volume was compared and read, and
// what the plan spent.
func comparedBy(t *testing.T, hosts int) (matched, parsed int, work uint64) {
	t.Helper()
	store := volumes.NewStore()
	store.Set(class("local", volumes.NoProvisioner, true))
	store.Set(claim("models", "local"))
	c := topology.NewCluster()
	c.Binders = []topology.Binder{store}
	for h := range hosts {
		n := nodes()[0].DeepCopy()
		n.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("h-%d", h), Labels: map[string]string{zone: "a", corev1.LabelHostname: fmt.Sprintf("h-%d", h)}}
		c.SetNode(n)
		for i := range 4 {
			store.Set(localVolume(n.Name, i))
		}
	}
	before := c.Work()
	if r := placement.PlanGraph(c, graphOf(pods(1, "1", "models")), placement.Options{}).Replicas[0]; r.Refusal != nil {
		t.Fatal("refused: " + r.Refusal.Message())
	}
	matched, parsed = store.Compared()
	return matched, parsed, c.Work() - before
}

// Each local volume is read once, and compared with its own host alone.
func TestLocalVolumesAreLinear(t *testing.T) {
	for _, hosts := range []int{10, 40} {
		matched, parsed, work := comparedBy(t, hosts)
		if matched > 4*hosts || parsed > 4*hosts {
			t.Errorf("%d volumes: %d comparisons, %d affinities read", 4*hosts, matched, parsed)
		}
		if work < uint64(matched) {
			t.Errorf("%d comparisons are not counted: the plan spent %d", matched, work)
		}
	}
}
