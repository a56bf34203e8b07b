// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// components, worker and frontend are what deployments of scenarios consist of.
type services = graphs.Components

var worker, frontend = graphs.Worker, graphs.Frontend

// graphOf returns a deployment with the given components in the world's namespace.
func (w *world) graphOf(name, packDomain string, services map[string]*nvidiav1alpha1.ServiceSpec) *nvidiav1alpha1.DynamoGraphDeployment {
	return &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{
			TopologyConstraint: &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: w.name, PackDomain: packDomain},
			Services:           services,
		},
	}
}

func (w *world) topology() *grovev1alpha1.ClusterTopology {
	return &grovev1alpha1.ClusterTopology{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec: grovev1alpha1.ClusterTopologySpec{
			NodeSelector: map[string]string{poolKey: w.name},
			Levels: []grovev1alpha1.TopologyLevel{
				{Domain: "zone", Key: zoneKey}, {Domain: "rack", Key: rackKey}, {Domain: "host", Key: corev1.LabelHostname},
			},
		},
	}
}

// racks makes hosts hosts of gpus GPUs in each named rack, "zone/rack".
func racks(hosts, gpus int, paths ...string) []host {
	var out []host
	for _, path := range paths {
		zone, rack, _ := strings.Cut(path, "/")
		for i := range hosts {
			out = append(out, host{zone: zone, rack: rack, name: fmt.Sprintf("%s-%s-%d", zone, rack, i), gpus: gpus})
		}
	}
	return out
}

// host is a node of a world: its place and its GPUs.
type host struct {
	zone, rack, name string
	gpus             int
}

// addHosts adds hosts to the world's pool.
func (w *world) addHosts(hosts ...host) {
	w.t.Helper()
	nodes := make([]corev1.Node, len(hosts))
	for i, h := range hosts {
		nodes[i] = w.newNode(h)
	}
	if err := w.cluster.AddNodes(w.t.Context(), nodes...); err != nil {
		w.t.Fatalf("adding %d nodes: %v", len(hosts), err)
	}
}

// newNode is the node of a host. Pods of other scenarios, which may be bound anywhere, had better not be: the hosts go with their scenario.
func (w *world) newNode(h host) corev1.Node {
	node := simulated.NewNode(w.node(h.name), h.gpus, map[string]string{zoneKey: h.zone, rackKey: h.rack, poolKey: w.name})
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: poolKey, Value: w.name, Effect: corev1.TaintEffectPreferNoSchedule})
	return node
}

// node is the real name of a world's host.
func (w *world) node(host string) string { return w.name + "-" + host }

// occupy fills GPUs of a host with a pod of another owner's.
func (w *world) occupy(name, host string, gpus int) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec: corev1.PodSpec{
			NodeName:                      w.node(host),
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "main", Image: "example.com/other:1", Resources: corev1.ResourceRequirements{Limits: gpuList(gpus)}}},
		},
	}
	w.create(pod)
	return pod
}
