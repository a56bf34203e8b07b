// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nvlink determines which pods share an NVLink domain that spans several nodes. NVIDIA's DRA driver creates such a domain for a
// ComputeDomain (resource.nvidia.com). Pods join the domain with claims of the template that the ComputeDomain names. Nodes in one NVLink
// fabric have the same value of the label nvidia.com/gpu.clique. Memory is shared only inside one clique: pods of one ComputeDomain in two
// cliques start and become Ready, but cannot exchange data over NVLink.
package nvlink

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

const (
	// CliqueLabel is the node label whose value is the node's clique: "<cluster UUID>.<clique ID>". GPU feature discovery writes it.
	CliqueLabel = "nvidia.com/gpu.clique"
	// channelClass is the DeviceClass of the channels that pods of a workload claim.
	channelClass = "compute-domain-default-channel.nvidia.com"
)

// IsChannel reports whether a claim requests a channel of a ComputeDomain.
func IsChannel(spec *resourcev1.ResourceClaimSpec) bool {
	return slices.ContainsFunc(spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.DeviceClassName == channelClass
	})
}

// ChannelTemplate returns the claim template that the driver creates for a ComputeDomain.
func ChannelTemplate(namespace, name string) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{}
	t.Namespace, t.Name = namespace, name
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "channel", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: channelClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}}
	return t
}

// TemplatesOf lists, sorted, the claim templates that pods of a deployment name.
func TemplatesOf(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	var out []string
	for i := range dgd.Spec.Components {
		out = append(out, templatesOf(&dgd.Spec.Components[i])...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func templatesOf(c *nvidiav1beta1.ComponentSpec) []string {
	if c.PodTemplate == nil {
		return nil
	}
	var out []string
	for _, claim := range c.PodTemplate.Spec.ResourceClaims {
		if name := claim.ResourceClaimTemplateName; name != nil && *name != "" {
			out = append(out, *name)
		}
	}
	return out
}

// Shared is an NVLink domain and the components whose pods join it. Components are given by their index in the deployment.
type Shared struct {
	Domain     ComputeDomain
	Components []int
	// PerReplica: each replica of the only component has a domain of its own.
	PerReplica bool
}

// SharedBy lists the ComputeDomains that pods of a deployment join, in the order of the argument domains.
func SharedBy(dgd *nvidiav1beta1.DynamoGraphDeployment, domains []ComputeDomain) []Shared {
	var out []Shared
	for _, domain := range domains {
		one := Shared{Domain: domain}
		for i := range dgd.Spec.Components {
			if slices.Contains(templatesOf(&dgd.Spec.Components[i]), domain.Template()) {
				one.Components = append(one.Components, i)
			}
		}
		if len(one.Components) > 0 {
			out = append(out, one)
		}
	}
	return out
}
