// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// kwokAnnotation is KWOK's own annotation for simulated nodes, so that KWOK's tools recognize them.
const kwokAnnotation, kwokFake = "kwok.x-k8s.io/node", "fake"

// simulate makes from a Node, generated or read from a file, the Node that a healthy kubelet would register. Its status is complete, so
// that KWOK does not need to write it.
func simulate(n corev1.Node, index int, now metav1.Time) corev1.Node {
	out := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, Annotations: map[string]string{kwokAnnotation: kwokFake}}}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	for key, value := range map[string]string{simulated.HostKey: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"} {
		out.Labels[key] = cmp.Or(out.Labels[key], value)
	}
	delete(out.Labels, kubeletLabel)
	out.Spec.Unschedulable = n.Spec.Unschedulable
	for _, t := range n.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") { // controllers add these taints from the conditions of the node
			out.Spec.Taints = append(out.Spec.Taints, t)
		}
	}
	out.Status = corev1.NodeStatus{
		Phase:       corev1.NodeRunning, // KWOK's stages read the phase
		Capacity:    n.Status.Capacity,
		Allocatable: n.Status.Allocatable,
		Conditions:  healthy(now),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: nodeAddress(index)},
			{Type: corev1.NodeHostName, Address: out.Labels[simulated.HostKey]},
		},
		NodeInfo: corev1.NodeSystemInfo{
			Architecture: out.Labels[corev1.LabelArchStable], OperatingSystem: out.Labels[corev1.LabelOSStable],
			KubeletVersion: binaries.Version, KubeProxyVersion: "", ContainerRuntimeVersion: "kwok://0.8.0", KernelVersion: "kwok", OSImage: "kwok",
		},
	}
	if out.Status.Capacity == nil {
		out.Status.Capacity = out.Status.Allocatable
	}
	if out.Status.Allocatable == nil {
		out.Status.Allocatable = out.Status.Capacity
	}
	return out
}

func healthy(now metav1.Time) []corev1.NodeCondition {
	condition := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "RouteCreated"),
	}
}

// nodeAddress returns one address of 172.16.0.0/12 per index. Pods and Services of the sandbox do not use that range.
func nodeAddress(index int) string {
	i := index + 1
	bytes := [4]byte{172, byte(16 + i>>16&0xf), byte(i >> 8), byte(i)} //nolint:gosec // the low bits are what is wanted
	return netip.AddrFrom4(bytes).String()
}

// readNodes reads Nodes and NodeLists from a file.
func readNodes(file string) ([]corev1.Node, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var nodes []corev1.Node
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		var doc struct {
			corev1.Node
			Items []corev1.Node `json:"items"`
		}
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading nodes from %s: %w", file, err)
		}
		if len(doc.Items) > 0 || doc.Kind == "List" || doc.Kind == "NodeList" {
			nodes = append(nodes, doc.Items...)
		} else if doc.Kind != "" { // skip empty documents
			nodes = append(nodes, doc.Node)
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("reading nodes from %s: it holds no Node", file)
	}
	return nodes, checkNodes(file, nodes)
}

func checkNodes(file string, nodes []corev1.Node) error {
	seen := map[string]bool{}
	for i, n := range nodes {
		switch {
		case n.Kind != "" && n.Kind != "Node":
			return fmt.Errorf("reading nodes from %s: found a %s, want Node objects only", file, n.Kind)
		case n.Name == "":
			return fmt.Errorf("reading nodes from %s: node %d has no name", file, i+1)
		case seen[n.Name]:
			return fmt.Errorf("reading nodes from %s: node %s appears twice", file, n.Name)
		case len(n.Status.Allocatable) == 0 && len(n.Status.Capacity) == 0:
			return fmt.Errorf("reading nodes from %s: node %s has neither status.allocatable nor status.capacity", file, n.Name)
		}
		seen[n.Name] = true
	}
	return nil
}
