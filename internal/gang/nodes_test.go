// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Pods name nodes when that spares the kube-scheduler the look at many others: all of a small domain, or each pod its planned host, when it
// fills that. Where two pods fill a host together, one of another replica, which names no host, may come between them.
func TestNamedNodes(t *testing.T) {
	const small, large = maxNamedNodes, maxNamedNodes + 1
	enough := func(names int) int { return names * namedShare }
	cases := map[string]struct {
		// rack is how many hosts the rack has, of so many nodes in all; pods and GPUs of a host.
		rack, nodes, pods, gpus int
		ports                   bool
		want                    int
	}{
		"a small domain":                          {rack: 3, nodes: enough(3), pods: 2, gpus: 1, want: 3},
		"no small part of the cluster":            {rack: 3, nodes: enough(3) - 1, pods: 2, gpus: 1},
		"the largest small domain":                {rack: small, nodes: enough(small), pods: 2, gpus: 1, want: small},
		"a small domain that is filled":           {rack: 3, nodes: enough(1), pods: 3, gpus: 1, want: 1},
		"one with capacity":                       {rack: 3, nodes: enough(3), pods: 3, gpus: 2, want: 3},
		"full hosts of a large domain":            {rack: large, nodes: enough(1), pods: 2, gpus: 1, want: 1},
		"full, with two pods each":                {rack: large, nodes: enough(1), pods: 4, gpus: 2},
		"not full":                                {rack: large, nodes: enough(3), pods: 3, gpus: 2},
		"full hosts of a small cluster":           {rack: large, nodes: enough(1) - 1, pods: 2, gpus: 1},
		"many full hosts":                         {rack: 2 * large, nodes: enough(2), pods: large, gpus: 1, want: 1},
		"each pod has a host of its own to go to": {rack: 3, nodes: enough(3), pods: 2, gpus: 1, ports: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := NewCluster()
			for i := range c.rack {
				cluster.SetNode(host(fmt.Sprint("h", i), "r", c.gpus))
			}
			for i := range c.nodes - c.rack {
				cluster.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("other", i)}})
			}
			o := asking(int32(c.pods))
			for _, pod := range o.Pods {
				if c.ports {
					pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
				}
			}
			releases := releasesOf(cluster, o)
			if len(releases) != c.pods {
				t.Fatalf("%d pods released", len(releases))
			}
			for _, r := range releases {
				planned, _ := cluster.Reserved(topology.PodID(r.Pod))
				if len(r.Pin.Nodes) != c.want || c.want > 0 && !slices.Contains(r.Pin.Nodes, planned) {
					t.Errorf("%s is pinned to the nodes %q, want %d of them, %s included", r.Pod.Name, r.Pin.Nodes, c.want, planned)
				}
				if (r.Pin.Node != "") != c.ports {
					t.Errorf("%s is pinned to the host %q", r.Pod.Name, r.Pin.Node)
				}
			}
		})
	}
}
