// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package worlds makes clusters that consist only of objects, in the state in which the operator would have left them: for images in the
// documentation and for tests of the map. The same calls make the same world.
package worlds

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/whatif"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// Began is the time of all events in a world.
var Began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Builder makes a world step by step.
type Builder struct{ whatif.World }

// New returns a world with the hosts of a sandbox of this shape, and the ClusterTopology datacenter with the levels zone, block, rack and
// host.
func New(shape simulated.Shape) *Builder {
	b := &Builder{}
	for _, n := range shape.Nodes() {
		n.Labels[simulated.HostKey] = n.Name
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		b.Nodes = append(b.Nodes, &n)
	}
	ct := &grovev1alpha1.ClusterTopology{}
	ct.Name = "datacenter"
	ct.Spec.Levels = []grovev1alpha1.TopologyLevel{
		{Domain: "zone", Key: simulated.ZoneKey}, {Domain: "block", Key: simulated.BlockKey}, {Domain: "rack", Key: simulated.RackKey},
		{Domain: "host", Key: simulated.HostKey},
	}
	b.Topologies = append(b.Topologies, ct)
	return b
}

// Topology adds a ClusterTopology with this name and the levels feed, pdu and host. Hosts are assigned to feeds, and to the PDUs of each
// feed, in turn, so that its domains cross the racks.
func (b *Builder) Topology(name string, feeds, pdus int) {
	const feedKey, pduKey = "example.com/feed", "example.com/pdu"
	for i, n := range b.Nodes {
		n.Labels[feedKey], n.Labels[pduKey] = fmt.Sprintf("feed-%d", i%feeds), fmt.Sprintf("pdu-%d", i/feeds%pdus)
	}
	ct := &grovev1alpha1.ClusterTopology{}
	ct.Name = name
	ct.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "feed", Key: feedKey}, {Domain: "pdu", Key: pduKey}, {Domain: "host",
		Key: simulated.HostKey}}
	b.Topologies = append(b.Topologies, ct)
}

// Read parses a deployment's manifest of either version.
func Read(manifest string) (*nvidiav1beta1.DynamoGraphDeployment, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(manifest), &kind); err != nil {
		return nil, err
	}
	dgd, alpha := &nvidiav1beta1.DynamoGraphDeployment{}, &nvidiav1alpha1.DynamoGraphDeployment{}
	var written any = dgd
	if kind.APIVersion == nvidiav1alpha1.GroupVersion.String() {
		written = alpha
	}
	if err := yaml.UnmarshalStrict([]byte(manifest), written); err != nil {
		return nil, err
	}
	if written == alpha {
		dgd = hub.Of(alpha)
	}
	if dgd.Namespace == "" {
		dgd.Namespace = metav1.NamespaceDefault
	}
	return dgd, nil
}

// Apply applies the deployment of a manifest: replicas with capacity are bound and Ready, the others wait gated, with the operator's
// reason. A deployment that exists is changed; its pods stay.
func (b *Builder) Apply(manifest string) error {
	dgd, err := Read(manifest)
	if err != nil {
		return err
	}
	return b.apply(dgd)
}

func (b *Builder) apply(dgd *nvidiav1beta1.DynamoGraphDeployment) error {
	g, err := whatif.NewPlanner(b.World).Plan(dgd)
	if err != nil {
		return fmt.Errorf("planning %s: %w", dgd.Name, err)
	}
	groups := map[string]*trellisv1alpha1.ScalingGroup{}
	for _, sg := range g.Groups {
		groups[sg.Spec.Component] = sg
	}
	for _, pod := range g.PlannedPods() {
		b.Pods = append(b.Pods, owned(pod, g.Groups))
	}
	var refused *whatif.Replica
	for i, r := range g.Replicas {
		if r.Reason == nil {
			continue
		}
		if refused == nil {
			refused = &g.Replicas[i]
		}
		for index := range render.PodsPerReplica(groups[r.Component]) {
			b.Pods = append(b.Pods, owned(render.BuildPod(groups[r.Component], int32(r.Ordinal), index), g.Groups)) //nolint:gosec // few replicas
		}
	}
	report(dgd, &g, refused)
	b.Graphs = slices.DeleteFunc(b.Graphs, func(other *nvidiav1beta1.DynamoGraphDeployment) bool {
		return other.Namespace == dgd.Namespace && other.Name == dgd.Name
	})
	b.Groups = slices.DeleteFunc(b.Groups, func(other *trellisv1alpha1.ScalingGroup) bool {
		return slices.ContainsFunc(g.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool {
			return other.Namespace == sg.Namespace && other.Name == sg.Name
		})
	})
	b.Groups, b.Graphs = append(b.Groups, g.Groups...), append(b.Graphs, dgd)
	return nil
}

func owned(pod *corev1.Pod, groups []*trellisv1alpha1.ScalingGroup) *corev1.Pod {
	pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	if pod.Spec.NodeName != "" {
		pod.Spec.SchedulingGates = nil
	}
	for _, sg := range groups {
		if render.LabelValue(sg.Name) == pod.Labels[render.LabelScalingGroup] {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}
		}
	}
	return pod
}

// report writes the part of the operator's status that the plugin reads.
func report(dgd *nvidiav1beta1.DynamoGraphDeployment, g *whatif.Plan, refused *whatif.Replica) {
	if len(g.Domain) > 0 {
		dgd.Status.Placement = &nvidiav1beta1.PlacementStatus{Domain: g.Domain.String()}
	}
	set := func(kind string, is bool, reason, message string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&dgd.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(Began),
		})
	}
	set(nvidiav1beta1.ConditionReady, refused == nil, "placement", "")
	if len(g.Waiting()) == 0 {
		set(nvidiav1beta1.ConditionPlaced, true, "Placed", "all packed replicas are placed")
		return
	}
	set(nvidiav1beta1.ConditionPlaced, false, gang.LeadingCode(g.Waiting()), g.Words())
}

// sample returns a deployment of config/samples below the root of the repository.
func (b *Builder) sample(root, name string) (*nvidiav1beta1.DynamoGraphDeployment, error) {
	data, err := os.ReadFile(filepath.Join(root, "config/samples", name+".yaml"))
	if err != nil {
		return nil, err
	}
	return Read(string(data))
}

// neighbours adds the running pods of a file.
func (b *Builder) neighbours(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(data), "---\n") {
		p := &corev1.Pod{}
		if err := yaml.Unmarshal([]byte(document), p); err != nil {
			return err
		}
		if p.Kind == "Pod" {
			p.UID, p.Status.Phase = types.UID(p.Name), corev1.PodRunning
			for i := range p.Spec.Containers { // the API server does the same
				p.Spec.Containers[i].Resources.Requests = p.Spec.Containers[i].Resources.Limits
			}
			b.Pods = append(b.Pods, p)
		}
	}
	return nil
}

// Occupy adds a pod that belongs to no graph to a host, by the host's index.
func (b *Builder) Occupy(host int, gpus int64) {
	node := b.Nodes[host].Name
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "train-" + strings.TrimPrefix(node, "zone-")}}
	p.UID, p.Spec.NodeName = types.UID(p.Name), node
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)},
	}}}
	p.Status.Phase = corev1.PodRunning
	b.Pods = append(b.Pods, p)
}

// Cordon cordons a host, by its index.
func (b *Builder) Cordon(host int) { b.Nodes[host].Spec.Unschedulable = true }

// Break makes a host not ready, by its index.
func (b *Builder) Break(host int) {
	b.Nodes[host].Status.Conditions[0].Status = corev1.ConditionUnknown
}

// Graph returns the manifest of a deployment of one packed component and a frontend without GPUs. Single-node replicas are packed together,
// multinode replicas each on its own.
func Graph(namespace, name, pack string, replicas, nodes, gpus int) string {
	multinode := ""
	if nodes > 1 {
		multinode = fmt.Sprintf("multinode: {nodeCount: %d}", nodes)
	}
	return fmt.Sprintf(`
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: %s, namespace: %s}
spec:
  topologyConstraint: {topologyProfile: datacenter}
  services:
    Frontend:
      componentType: frontend
      extraPodSpec: {mainContainer: {image: app}}
    Worker:
      componentType: worker
      replicas: %d
      %s
      topologyConstraint: {packDomain: %s}
      resources: {limits: {gpu: "%d"}}
      extraPodSpec: {mainContainer: {image: app, command: [/bin/sh, -c], args: [python3 -m dynamo.vllm --model big]}}
`, name, namespace, replicas, multinode, pack, gpus)
}
