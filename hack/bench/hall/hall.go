// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hall makes the simulated clusters and demands that all sides are measured on, and judges every answer by one set of rules.
package hall

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// GPU is the resource everything is about.
const GPU corev1.ResourceName = "nvidia.com/gpu"

// GPUs of every host.
const GPUs = 8

// Level of the topology, from the broadest down. Cluster is no level: anywhere.
type Level int

// The levels.
const (
	Cluster Level = iota - 1
	Zone
	Block
	Rack
)

// Levels are the topology's levels in order.
var Levels = []Level{Zone, Block, Rack}

// Name of a level.
func (l Level) Name() string { return [...]string{"cluster", "zone", "block", "rack"}[l+1] }

// Key is the node label that carries a level.
func (l Level) Key() string {
	return [...]string{"", corev1.LabelTopologyZone, "topology.trellis.dev/block", "topology.trellis.dev/rack"}[l+1]
}

// Shape of a hall: how many hosts in all, and how many of a kind in each parent; the last parent of a level may stay short.
type Shape struct {
	Hosts, HostsPerRack, RacksPerBlock, BlocksPerZone int
}

// Racks in the whole hall.
func (s Shape) Racks() int { return (s.Hosts + s.HostsPerRack - 1) / s.HostsPerRack }

// path of a host: its label value at every level. Values are unique in the whole hall, because one of the peers takes equal values for one
// domain.
func (s Shape) path(host int) [3]string {
	rack := host / s.HostsPerRack
	block := rack / s.RacksPerBlock
	return [3]string{"zone-" + strconv.Itoa(block/s.BlocksPerZone), "block-" + strconv.Itoa(block), "rack-" + strconv.Itoa(rack)}
}

// HostName of the i-th host.
func HostName(i int) string { return fmt.Sprintf("host-%06d", i) }

var (
	hostCPU, hostMemory, hostPods = resource.MustParse("192"), resource.MustParse("2Ti"), resource.MustParse("110")
	hostGPUs                      = *resource.NewQuantity(GPUs, resource.DecimalSI)
)

// Node makes the i-th host.
func (s Shape) Node(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: HostName(i), Labels: map[string]string{corev1.LabelHostname: HostName(i)}}}
	path := s.path(i)
	for _, l := range Levels {
		n.Labels[l.Key()] = path[l]
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Allocatable = corev1.ResourceList{
		GPU: hostGPUs, corev1.ResourceCPU: hostCPU, corev1.ResourceMemory: hostMemory, corev1.ResourcePods: hostPods,
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

// Nodes makes all hosts.
func (s Shape) Nodes() []*corev1.Node {
	nodes := make([]*corev1.Node, s.Hosts)
	for i := range nodes {
		nodes[i] = s.Node(i)
	}
	return nodes
}

// Pod makes a pod with that many GPUs, and what goes with them, bound to a host unless that is empty.
func Pod(name string, gpus int, host string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: host, Containers: []corev1.Container{{
			Name: "main", Image: "example.com/worker:1", Resources: corev1.ResourceRequirements{Requests: Requests(gpus)},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// Requests of one pod: the share of the host's processors and memory that its GPUs are.
func Requests(gpus int) corev1.ResourceList {
	return corev1.ResourceList{
		GPU:                   *resource.NewQuantity(int64(gpus), resource.DecimalSI),
		corev1.ResourceCPU:    *resource.NewQuantity(int64(CPUs(gpus)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(MemoryBytes(gpus), resource.BinarySI),
	}
}

// CPUs that go with so many GPUs.
func CPUs(gpus int) int { return 16 * gpus }

// MemoryBytes that go with so many GPUs.
func MemoryBytes(gpus int) int64 { return int64(gpus) << 37 }

// Busy occupies a hall as a cluster in use: every rack has a random number of wholly free hosts, and the others have at least one GPU in
// use.
func (s Shape) Busy(random *rand.Rand) []*corev1.Pod {
	var pods []*corev1.Pod
	for rack := range s.Racks() {
		free := random.IntN(s.HostsPerRack + 1)
		for i := rack * s.HostsPerRack; i < min((rack+1)*s.HostsPerRack, s.Hosts); i++ {
			if i%s.HostsPerRack >= free {
				pods = append(pods, Pod(fmt.Sprintf("busy-%06d", i), 1+random.IntN(GPUs), HostName(i)))
			}
		}
	}
	return pods
}

// Full leaves no host of a hall whole: one in ten has some GPUs left, the others none.
func (s Shape) Full(random *rand.Rand) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, s.Hosts)
	for i := range s.Hosts {
		gpus := GPUs
		if random.IntN(10) == 0 {
			gpus = 1 + random.IntN(GPUs-1)
		}
		pods = append(pods, Pod(fmt.Sprintf("busy-%06d", i), gpus, HostName(i)))
	}
	return pods
}

// Random makes the randomness of a run: the same for the same seed.
func Random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
