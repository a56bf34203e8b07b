// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// AlphaOnly is what a deployment of v1beta1 remembers of v1alpha1 that v1beta1 cannot say and that is acted on or warned of. It holds no
// live field: whatever v1beta1 can say is only in the object itself. Its zero value is that of a deployment that never was one of v1alpha1.
type AlphaOnly struct {
	// PVCs of the graph.
	PVCs []PVC
	// Services by name of the component.
	Services map[string]AlphaOnlyService
	// Ignored are the paths of fields whose value v1beta1 has no form for, so that nothing acts on them.
	Ignored []string
	// Deployment as v1alpha1 has it; nil for one that never was of v1alpha1. Its live fields say the same as those of v1beta1.
	Deployment *DynamoGraphDeployment
}

// AlphaOnlyService is what only v1alpha1 can say of one component.
type AlphaOnlyService struct {
	// Annotations and Labels of the component's objects other than pods. Those of the pods are in podTemplate.
	Annotations, Labels map[string]string
	// ComponentType and SubComponentType as v1alpha1 has them, where the component's type does not say the same. In v1alpha1, prefill and
	// decode are said by the componentType worker with that subComponentType.
	ComponentType, SubComponentType string
	// MainContainerName is the name of the main container, where it is not main.
	MainContainerName string
	// GPUResource is the name of the resource that counts the GPUs of the main container, where it is not nvidia.com/gpu.
	GPUResource string
	// ServiceName, DynamoNamespace, Autoscaling and PVC are deprecated and ignored; they are warned of.
	ServiceName      string
	DynamoNamespace  *string
	Autoscaling, PVC *FreeObject
	// Ingress to the component.
	Ingress *IngressSpec
}

// AlphaOnlyOf reads what only v1alpha1 can say of a deployment. It fails only if what is remembered is no valid v1alpha1, which admission
// refuses.
func AlphaOnlyOf(dgd *v1beta1.DynamoGraphDeployment) (AlphaOnly, error) {
	if dgd.Annotations[AnnotationSpecMemory] == "" {
		return AlphaOnly{}, nil
	}
	alpha := &DynamoGraphDeployment{}
	if err := retype(dgd, alpha, false); err != nil {
		return AlphaOnly{}, err
	}
	return AlphaOnlyIn(alpha, dgd), nil
}

// AlphaOnlyIn is AlphaOnlyOf a deployment that is at hand in v1alpha1, too; nil for one that never was of v1alpha1.
func AlphaOnlyIn(alpha *DynamoGraphDeployment, dgd *v1beta1.DynamoGraphDeployment) AlphaOnly {
	if alpha == nil {
		return AlphaOnly{}
	}
	out := AlphaOnly{PVCs: alpha.Spec.PVCs, Deployment: alpha, Ignored: ignored(alpha, dgd)}
	out.Services = make(map[string]AlphaOnlyService, len(dgd.Spec.Components))
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		if service := alpha.Spec.Services[c.Name]; service != nil {
			out.Services[c.Name] = alphaOnlyOf(service, string(c.Type))
		}
	}
	return out
}

func alphaOnlyOf(s *ServiceSpec, live string) AlphaOnlyService {
	out := AlphaOnlyService{
		Annotations: s.Annotations, Labels: s.Labels,
		ServiceName: s.ServiceName, DynamoNamespace: s.DynamoNamespace,
		Autoscaling: s.Autoscaling, PVC: s.PVC, Ingress: s.Ingress,
	}
	kind, sub := live, ""
	if live == ComponentTypePrefill || live == ComponentTypeDecode {
		kind, sub = ComponentTypeWorker, live
	}
	if s.ComponentType != kind || s.SubComponentType != sub {
		out.ComponentType, out.SubComponentType = s.ComponentType, s.SubComponentType
	}
	if extra := s.ExtraPodSpec; extra != nil && extra.MainContainer != nil && extra.MainContainer.Name != v1beta1.MainContainerName {
		out.MainContainerName = extra.MainContainer.Name
	}
	if r := s.Resources; r != nil {
		for _, item := range []*ResourceItem{r.Requests, r.Limits} {
			if item != nil && item.GPUType != "" {
				out.GPUResource = item.GPUType
			}
		}
	}
	return out
}

// ignored lists what a deployment says in v1alpha1 and not in v1beta1, though both have the field.
func ignored(alpha *DynamoGraphDeployment, dgd *v1beta1.DynamoGraphDeployment) []string {
	var paths []string
	add := func(set bool, path string) {
		if set {
			paths = append(paths, path)
		}
	}
	add(alpha.Spec.ProviderOverride != nil && dgd.Spec.ProviderOverride == nil, "spec.providerOverride")
	add(alpha.Spec.Experimental != nil && dgd.Spec.Experimental == nil, "spec.experimental")
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		s := alpha.Spec.Services[c.Name]
		if s == nil {
			continue
		}
		path := "spec.services[" + c.Name + "]."
		add(s.ProviderOverride != nil && c.ProviderOverride == nil, path+"providerOverride")
		if m := s.Multinode; m != nil && c.Multinode != nil {
			add(m.Leader != nil && c.Multinode.Leader == nil, path+"multinode.leader")
			add(m.Worker != nil && c.Multinode.Worker == nil, path+"multinode.worker")
		}
		add(s.RuntimeVersionOverride != "" && c.RuntimeVersionOverride == "", path+"runtimeVersionOverride")
	}
	return paths
}
