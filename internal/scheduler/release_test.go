// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods are told the nodes of their domain by name when that spares the kube-scheduler the look at many others.
func TestNamedNodes(t *testing.T) {
	cases := map[string]struct {
		// rack is how many hosts the rack has, others how many more nodes the cluster has.
		rack, others int
		ports        bool
		want         string
	}{
		"a small part of the cluster":             {rack: 2, others: 62, want: "h0 h1"},
		"not small enough":                        {rack: 2, others: 61},
		"as large as a list of names may be":      {rack: 64, others: 63 * 64, want: "h0 h1 h10"},
		"larger":                                  {rack: 65, others: 63 * 65},
		"each pod has a host of its own to go to": {rack: 2, others: 62, ports: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			for _, host := range []string{"a0", "a1", "b0", "b1"} {
				b.s.cluster.DeleteNode(host)
			}
			for i := range c.rack {
				b.host(fmt.Sprint("h", i), "r")
			}
			for i := range c.others {
				b.s.cluster.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("other", i)}})
			}
			o := asking(1, 2, 0)
			for _, pod := range o.pods {
				if c.ports {
					pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
				}
			}
			releases, _ := b.s.decide(t.Context(), o)
			if len(releases) != 2 {
				t.Fatalf("%d pods released", len(releases))
			}
			for _, r := range releases {
				got := strings.Join(r.pin.Nodes, " ")
				if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" || c.want != "" && len(r.pin.Nodes) != c.rack {
					t.Errorf("%s is pinned to the nodes %q, want %q", r.pod.Name, got, c.want)
				}
				if (r.pin.Node != "") != c.ports {
					t.Errorf("%s is pinned to the host %q", r.pod.Name, r.pin.Node)
				}
			}
		})
	}
}
