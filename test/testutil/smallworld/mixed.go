// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package smallworld

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/volumes"
)

// DrawMixed draws a world with everything that the planner counts: resources, ports, taints, selectors, node affinity, cordons, features of
// the kubelet, rules about other pods, volumes and devices. nodes and pods limit the nodes and the waiting pods.
func DrawMixed(nodes, pods int) func(*rapid.T) World {
	return func(t *rapid.T) World {
		w := drawWorld(t)
		hasDevices, hasVolumes := rapid.IntRange(0, 2).Draw(t, "devices") == 0, rapid.IntRange(0, 2).Draw(t, "volumes") == 0
		for i := range rapid.IntRange(2, nodes).Draw(t, "nodes") {
			n := drawNode(t, i)
			closeOrDeclare(t, n)
			n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(strconv.Itoa(rapid.IntRange(2, 8).Draw(t, n.Name+" cpus")))
			if w.Nodes = append(w.Nodes, n); hasDevices {
				w.drawSlice(t, n.Name)
			}
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "bound") {
			p := drawPod(t, "bound-"+strconv.Itoa(i), 0)
			p.Spec.NodeName = rapid.SampledFrom(w.Nodes).Draw(t, "on").Name
			w.Bound = append(w.Bound, p)
		}
		if hasDevices {
			w.drawNetwork(t)
			w.drawClasses(t)
			w.Devices = append(w.Devices, deviceClaim("shared", drawRequest(t, "shared")))
		}
		if hasVolumes {
			w.drawStorage(t)
		}
		for kind := 0; kind < 3 && len(w.Gang) < pods; kind++ {
			w.drawKind(t, kind, rapid.IntRange(1, min(3, pods-len(w.Gang))).Draw(t, "pods"), hasDevices, hasVolumes)
			if rapid.Bool().Draw(t, "no more kinds") {
				break
			}
		}
		return w
	}
}

var operators = []corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}

// drawKind draws pods that differ only by their claims.
func (w *World) drawKind(t *rapid.T, kind, pods int, hasDevices, hasVolumes bool) {
	name := "kind-" + strconv.Itoa(kind)
	like := drawPod(t, name, rapid.IntRange(0, 2).Draw(t, name+" gpus"))
	like.Namespace = "ns"
	c := &like.Spec.Containers[0]
	c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, name+" cpus"))
	if rapid.IntRange(0, 5).Draw(t, name+" has a port") == 0 {
		port := int32(rapid.SampledFrom([]int{8000, 8001}).Draw(t, name+" port"))
		c.Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port, Protocol: corev1.ProtocolTCP}}
	}
	if rapid.IntRange(0, 4).Draw(t, name+" restarts all") == 0 {
		restartAll(c)
	}
	if rapid.IntRange(0, 5).Draw(t, name+" requires nodes") == 0 {
		requireNodes(like, corev1.NodeSelectorRequirement{
			Key: zone, Values: []string{"z1"},
			Operator: rapid.SampledFrom(operators).Draw(t, name+" zone"),
		})
	}
	devices, storage := hasDevices && rapid.Bool().Draw(t, name+" claims"), hasVolumes && rapid.Bool().Draw(t, name+" mounts")
	request := drawRequest(t, name)
	own, shares := rapid.Bool().Draw(t, name+" own"), rapid.IntRange(0, 2).Draw(t, name+" shares") == 0
	asks := rapid.IntRange(0, 3).Draw(t, name+" asks") == 0
	mounts := rapid.SampledFrom([]string{"data", "scratch", ""}).Draw(t, name+" volume")
	for i := range pods {
		p := like.DeepCopy()
		p.Name = fmt.Sprintf("%s-%d", name, i)
		p.UID = types.UID(p.Name)
		if devices && own {
			w.own(p, request)
		}
		if devices && shares {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
				corev1.PodResourceClaim{Name: "shared", ResourceClaimName: ptr.To("shared")})
		}
		if devices && asks {
			p.Spec.Containers[0].Resources.Requests[byClass] = resource.MustParse("1")
		}
		switch {
		case !storage:
		case mounts != "":
			use(p, mounts)
		default:
			w.drawClaim(t, "own-"+p.Name, "local")
			use(p, "own-"+p.Name)
		}
		w.Gang = append(w.Gang, p)
	}
}

func requireNodes(p *corev1.Pod, r corev1.NodeSelectorRequirement) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{r}}}}}
}

// drawStorage draws bound claims that pods share, and the class of local volumes.
func (w *World) drawStorage(t *rapid.T) {
	w.Volumes = append(w.Volumes, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: volumes.NoProvisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	})
	w.drawClaim(t, "data", "bound")
	w.drawClaim(t, "scratch", "bound")
}
