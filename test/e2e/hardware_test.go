// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// computeDomain is the driver of the channels between nodes, and its class.
const computeDomain = "compute-domain.example.com"

// hardware are the kinds of nodes that the samples were written for, alongside the 44 in racks, blocks and zones.
var hardware = []struct {
	name        string
	nodes, gpus int
	labels      map[string]string
	// driver of further devices, and how many of them a node has.
	driver  string
	devices int
	// everywhere: in each zone alike, for pods that follow one which may have gone to any.
	everywhere bool
}{
	{name: "gb200", nodes: 24, gpus: 4, labels: map[string]string{corev1.LabelArchStable: "arm64", productKey: "NVIDIA-GB200"}, driver: computeDomain, devices: 4},
	{name: "gb300", nodes: 12, gpus: 4, labels: map[string]string{corev1.LabelArchStable: "arm64", productKey: "NVIDIA-GB300"}, driver: computeDomain, devices: 4},
	{name: "b200", nodes: 8, gpus: 8, labels: map[string]string{productKey: "NVIDIA-B200"}},
	{name: "h200", nodes: 12, gpus: 8, labels: map[string]string{productKey: "NVIDIA-H200"}},
	{name: "h100", nodes: 2, gpus: 8, labels: map[string]string{productKey: "NVIDIA-H100-80GB-HBM3"}},
	{name: "g6e", nodes: 9, gpus: 1, labels: map[string]string{corev1.LabelInstanceTypeStable: "g6e.2xlarge"}, everywhere: true},
	{name: "g7e", nodes: 9, gpus: 2, labels: map[string]string{corev1.LabelInstanceTypeStable: "g7e.12xlarge"}, everywhere: true},
	{name: "pool", nodes: 8, gpus: 8, labels: map[string]string{"pool": "gpu", zoneKey: "z0", "topology.trellis.dev/block": "pool", rackKey: "r0"}, driver: computeDomain, devices: 8},
	{name: "other", nodes: 4, driver: "gpu.intel.com", devices: 8},
}

const productKey = "nvidia.com/gpu.product"

// addSampleNodes makes the hardware that the samples were written for.
func addSampleNodes(ctx context.Context, e environment) error {
	var nodes []corev1.Node
	var devices []*resourcev1.ResourceSlice
	for i := range 44 {
		nodes = append(nodes, sampleNode(fmt.Sprintf("big-%d", i), 8, map[string]string{
			zoneKey: fmt.Sprintf("z%d", i/24), "topology.trellis.dev/block": fmt.Sprintf("b%d", i%24/8), rackKey: fmt.Sprintf("r%d", i%24/4),
			"nvidia.com/gpu.present": "true", "karpenter.sh/nodepool": "general-medium-storage",
		}))
	}
	for _, h := range hardware {
		for i := range h.nodes {
			node := sampleNode(fmt.Sprintf("%s-%d", h.name, i), h.gpus, h.labels)
			if h.everywhere {
				node.Labels[zoneKey] = []string{"z0", "z1", "zone-0"}[i%3]
			}
			nodes = append(nodes, node)
			if h.driver != "" {
				devices = append(devices, sampleSlice(node.Name, h.driver, h.devices))
			}
		}
	}
	if err := e.cluster.AddNodes(ctx, nodes...); err != nil {
		return err
	}
	for _, slice := range devices {
		if err := e.c.Create(ctx, slice); err != nil {
			return err
		}
	}
	return nil
}

// addBindings installs Grove's definition of ClusterTopologyBindings, in addition to the nodes.
func addBindings(ctx context.Context, e environment) error {
	crd, err := definitions.Load("grove/grove.io_clustertopologybindings.yaml")
	if err != nil {
		return err
	}
	config, err := e.cluster.RESTConfig()
	if err != nil {
		return err
	}
	return errors.Join(apiserver.Install(config, crd), addSampleNodes(ctx, e))
}

func sampleNode(name string, gpus int, labels map[string]string) corev1.Node {
	node := simulated.NewNode(name, gpus, labels)
	node.Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse("1Ti")
	for _, card := range []corev1.ResourceName{"vpc.amazonaws.com/efa", "rdma/shared_ib"} {
		node.Status.Allocatable[card] = resource.MustParse(fmt.Sprint(gpus))
	}
	return node
}

// sampleSlice publishes the devices of a node as a driver would.
func sampleSlice(node, driver string, devices int) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To(node), Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("device-%d", i)})
	}
	return slice
}
