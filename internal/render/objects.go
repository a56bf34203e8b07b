// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// ScalingGroups returns the ScalingGroup of every component. Owner references are the caller's.
func (g *Graph) ScalingGroups() []*trellisv1alpha1.ScalingGroup {
	groups := make([]*trellisv1alpha1.ScalingGroup, 0, len(g.Components))
	for i := range g.Components {
		groups = append(groups, g.scalingGroup(&g.Components[i]))
	}
	return groups
}

func (g *Graph) scalingGroup(s *Component) *trellisv1alpha1.ScalingGroup {
	sg := &trellisv1alpha1.ScalingGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: trellisv1alpha1.GroupVersion.String(), Kind: "ScalingGroup"},
		ObjectMeta: g.meta(s, s.GroupName),
		Spec: trellisv1alpha1.ScalingGroupSpec{
			Graph:     g.Name,
			Service:   s.Name,
			Provider:  g.Provider,
			Replicas:  s.Replicas,
			Multinode: s.Multinode,
			Topology:  s.Topology.DeepCopy(),
			Input:     s.Input.DeepCopy(),
			Revision:  s.Revision,
			Rollout:   s.Rollout.DeepCopy(),
			Step:      s.Step.DeepCopy(),
			Restart:   s.Restart.DeepCopy(),
		},
	}
	if s.MinAvailable != nil {
		sg.Spec.MinAvailable = ptr.To(*s.MinAvailable)
	}
	if s.Multinode {
		sg.Spec.Workload = g.Workload
	}
	if g.queue != "" && !Gated(sg) { // pods of gangs have it from their PodGroup
		metav1.SetMetaDataAnnotation(&sg.ObjectMeta, AnnotationQueue, g.queue)
	}
	delete(sg.Annotations, AnnotationKueueQueue)
	if g.kueueQueue != "" {
		metav1.SetMetaDataAnnotation(&sg.ObjectMeta, AnnotationKueueQueue, g.kueueQueue)
	}
	for i := range s.Roles {
		sg.Spec.Roles = append(sg.Spec.Roles, *s.Roles[i].DeepCopy())
	}
	sg.Spec.Pods = ptr.To(wantedPods(sg))
	return sg
}

// wantedPods is the number of pods of all wanted replicas, at most the largest int32.
func wantedPods(sg *trellisv1alpha1.ScalingGroup) int32 {
	return int32(min(int64(sg.Spec.Replicas)*int64(PodsPerReplica(sg)), math.MaxInt32))
}

// KubernetesServices returns one Service for every component of the graph, reaching whole replicas at their leader, and for each
// multinode component a headless one that gives its pods their DNS names before they are ready. Grove and LeaderWorkerSet make their own
// for the pods they make.
func (g *Graph) KubernetesServices() []*corev1.Service {
	var services []*corev1.Service
	for i := range g.Components {
		s := &g.Components[i]
		services = append(services, g.componentService(s))
		if s.Multinode && specs.Named(g.Provider).Planned && g.Workload == "" {
			services = append(services, g.headlessService(s))
		}
	}
	return services
}

func (g *Graph) componentService(s *Component) *corev1.Service {
	service := g.kubernetesService(s, s.ServiceName)
	service.Spec.Ports = []corev1.ServicePort{servicePort(s)}
	if s.Multinode {
		service.Spec.Selector[LabelRole] = RoleLeader
	}
	return service
}

func (g *Graph) headlessService(s *Component) *corev1.Service {
	service := g.kubernetesService(s, headlessName(s.GroupName))
	// Programs that discover workers by these labels want ready ones only.
	delete(service.Labels, LabelDiscoveryBackend)
	delete(service.Labels, LabelDiscoveryEnabled)
	service.Spec.ClusterIP = corev1.ClusterIPNone
	service.Spec.PublishNotReadyAddresses = true
	return service
}

func (g *Graph) kubernetesService(s *Component, name string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: g.meta(s, name),
		Spec:       corev1.ServiceSpec{Selector: groupSelector(g.Name, s.GroupName)},
	}
}

func (g *Graph) meta(s *Component, name string) metav1.ObjectMeta {
	labels := maps.Clone(s.Labels)
	maps.Copy(labels, groupSelector(g.Name, s.GroupName))
	return metav1.ObjectMeta{Name: name, Namespace: g.Namespace, Labels: labels, Annotations: maps.Clone(s.Annotations)}
}

// groupSelector selects exactly the pods of one component. The graph's name is part of it because "a-b"+"c" and "a"+"b-c" give one group
// name.
func groupSelector(graph, group string) map[string]string {
	return map[string]string{LabelGraph: LabelValue(graph), LabelScalingGroup: group}
}

func servicePort(s *Component) corev1.ServicePort {
	port := corev1.ServicePort{Name: portSystem, Port: systemPort}
	switch s.ComponentType {
	case typeFrontend:
		port = corev1.ServicePort{Name: portHTTP, Port: httpPort}
	case typeEPP:
		port = corev1.ServicePort{Name: portGRPC, Port: grpcPort, AppProtocol: ptr.To("http2")}
	}
	port.Protocol = corev1.ProtocolTCP
	port.TargetPort = intstr.FromInt32(port.Port)
	if len(s.Roles) > 0 && len(s.Roles[0].Template.Spec.Containers) > 0 {
		port.TargetPort = portRef(s.Roles[0].Template.Spec.Containers[0].Ports, port.Name, port.Port)
	}
	return port
}
