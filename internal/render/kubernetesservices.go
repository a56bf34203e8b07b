// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// KubernetesServices returns a Service for every component. The Service targets the leaders of a multinode component, or all pods of a
// single-node component. For each multinode component whose pods Trellis makes, KubernetesServices also returns a headless Service, which
// gives the pods DNS names before they are ready. Grove and LeaderWorkerSet create headless Services for their own pods.
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
	// With these labels, programs would discover workers that are not ready.
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
