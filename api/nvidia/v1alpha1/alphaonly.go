// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// AlphaOnly holds the v1alpha1 settings of a v1beta1 deployment that v1beta1 cannot express and that Trellis acts on or warns about. Fields
// that v1beta1 can express are only in the object itself. The zero value belongs to a deployment that never was v1alpha1.
type AlphaOnly struct {
	// PVCs of the graph.
	PVCs []PVC
	// Services maps component names to their v1alpha1 settings.
	Services map[string]AlphaOnlyService
	// Ignored are the paths of fields that nothing acts on and whose values v1beta1 cannot express.
	Ignored []string
	// Deployment in v1alpha1; nil for a deployment that never was v1alpha1. The fields that both versions have are equal to those of
	// v1beta1.
	Deployment *DynamoGraphDeployment
}

// AlphaOnlyService holds the settings of one component that v1beta1 cannot express.
type AlphaOnlyService struct {
	// Annotations and Labels of the component's objects other than pods. The pods' metadata is in podTemplate.
	Annotations, Labels map[string]string
	// ComponentType and SubComponentType in v1alpha1, if the component's type does not imply them. In v1alpha1, prefill and decode have the
	// componentType worker and that subComponentType.
	ComponentType, SubComponentType string
	// MainContainerName is the name of the main container, if it is not main.
	MainContainerName string
	// GPUResource is the name of the resource that counts the GPUs of the main container, if it is not nvidia.com/gpu.
	GPUResource string
	// ServiceName, DynamoNamespace, Autoscaling and PVC are deprecated and ignored, with a warning.
	ServiceName      string
	DynamoNamespace  *string
	Autoscaling, PVC *FreeObject
	// Ingress to the component.
	Ingress *IngressSpec
}

// AlphaOnlyOf reads the AlphaOnly settings of a deployment from its annotation. It fails only if the annotation contains an invalid
// v1alpha1 spec, which admission refuses.
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

// AlphaOnlyIn returns the AlphaOnly settings of a deployment that the caller has in v1alpha1, too; alpha is nil for a deployment that never
// was v1alpha1.
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

// ignored lists the fields that both versions have, but that are set only in v1alpha1.
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
