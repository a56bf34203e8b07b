// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hall makes the simulated clusters and demands for all sides, and judges every answer by the same rules.
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

// GPU is the resource of all demands.
const GPU corev1.ResourceName = "nvidia.com/gpu"

// GPUs is the number of GPUs of every host.
const GPUs = 8

// Level is a level of the topology, from the broadest down. Cluster is not a level: it means anywhere.
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

// Name returns the name of a level.
func (l Level) Name() string { return [...]string{"cluster", "zone", "block", "rack"}[l+1] }

// Key returns the node label key of a level.
func (l Level) Key() string {
	return [...]string{"", corev1.LabelTopologyZone, "topology.trellis.dev/block", "topology.trellis.dev/rack"}[l+1]
}

// Shape is the shape of a hall: the number of hosts in total, and the number of children per parent; the last parent of a level may have
// fewer.
type Shape struct {
	Hosts, HostsPerRack, RacksPerBlock, BlocksPerZone int
}

// Racks returns the number of racks in the hall.
func (s Shape) Racks() int { return (s.Hosts + s.HostsPerRack - 1) / s.HostsPerRack }

// path returns the label values of a host at every level. Values are unique in the hall, because one of the peers treats equal values as
// one domain.
func (s Shape) path(host int) [3]string {
	rack := host / s.HostsPerRack
	block := rack / s.RacksPerBlock
	return [3]string{"zone-" + strconv.Itoa(block/s.BlocksPerZone), "block-" + strconv.Itoa(block), "rack-" + strconv.Itoa(rack)}
}

// HostName returns the name of the i-th host.
func HostName(i int) string { return fmt.Sprintf("host-%06d", i) }

var (
	hostCPU, hostMemory, hostPods = resource.MustParse("192"), resource.MustParse("2Ti"), resource.MustParse("110")
	hostGPUs                      = *resource.NewQuantity(GPUs, resource.DecimalSI)
)

// Node returns the i-th host.
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

// Nodes returns all hosts.
func (s Shape) Nodes() []*corev1.Node {
	nodes := make([]*corev1.Node, s.Hosts)
	for i := range nodes {
		nodes[i] = s.Node(i)
	}
	return nodes
}

// Pod returns a pod with that number of GPUs and its share of CPUs and memory, bound to a host unless host is empty.
func Pod(name string, gpus int, host string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: host, Containers: []corev1.Container{{
			Name: "main", Image: "example.com/worker:1", Resources: corev1.ResourceRequirements{Requests: Requests(gpus)},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// Requests returns the requests of one pod: the GPUs, and the same share of the host's processors and memory.
func Requests(gpus int) corev1.ResourceList {
	return corev1.ResourceList{
		GPU:                   *resource.NewQuantity(int64(gpus), resource.DecimalSI),
		corev1.ResourceCPU:    *resource.NewQuantity(int64(CPUs(gpus)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(MemoryBytes(gpus), resource.BinarySI),
	}
}

// CPUs returns the CPUs for that number of GPUs.
func CPUs(gpus int) int { return 16 * gpus }

// MemoryBytes returns the memory for that number of GPUs.
func MemoryBytes(gpus int) int64 { return int64(gpus) << 37 }

// Busy returns pods that occupy a hall like a cluster in use: every rack has a random number of entirely free hosts, and the other hosts
// have at least one GPU in use.
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

// Full returns pods that leave no host of a hall entirely free: one host in ten has some GPUs left, the others none.
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

// Random returns a random number generator: the same for the same seed.
func Random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
