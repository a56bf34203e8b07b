// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bytes"
	"encoding/json"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

const (
	// AnnotationGroveUpdate on a deployment is how Grove updates its PodCliqueSet.
	AnnotationGroveUpdate = "nvidia.com/grove-update-strategy"
	// GroveRollingRecreate replaces pods replica by replica.
	GroveRollingRecreate = "RollingRecreate"
	// GroveOnDelete replaces a pod when somebody deletes it.
	GroveOnDelete = "OnDelete"

	groveVersion = "grove.io/v1alpha1"
	targetSet    = "PodCliqueSet"
	targetClique = "PodCliqueTemplateSpec"
	targetGroup  = "PodCliqueScalingGroupConfig"
)

// ServiceOverrides are what a service writes into Grove's topology constraints: of its clique or scaling group, and of the cliques of leader and
// workers. nil: nothing.
type ServiceOverrides struct{ Unit, Leader, Worker json.RawMessage }

// Overrides are what a deployment writes into Grove's topology constraints, each a JSON object.
type Overrides struct {
	Set      json.RawMessage
	Services map[string]ServiceOverrides
}

// GroveOverrides reads the provider overrides of a deployment. Those that say anything else are left out; see [NotActedOn].
func GroveOverrides(dgd *nvidiav1beta1.DynamoGraphDeployment) Overrides {
	out := Overrides{Services: map[string]ServiceOverrides{}}
	out.Set, _ = setOverride(dgd)
	for _, c := range Components(dgd) {
		var s ServiceOverrides
		s.Unit, _ = unitOverride(c)
		if c.Multinode != nil {
			s.Leader, _ = roleOverride(c.Multinode.Leader)
			s.Worker, _ = roleOverride(c.Multinode.Worker)
		}
		out.Services[c.Name] = s
	}
	return out
}

// setOverride is the deployment's own; false for one that is there and is not understood.
func setOverride(dgd *nvidiav1beta1.DynamoGraphDeployment) (json.RawMessage, bool) {
	return constraintIn(dgd.Spec.ProviderOverride, targetSet, "spec", "template", "topologyConstraint")
}

func unitOverride(c *nvidiav1beta1.ComponentSpec) (json.RawMessage, bool) {
	target := targetClique
	if _, multinode := c.PodsPerReplica(); multinode {
		target = targetGroup
	}
	return constraintIn(c.ProviderOverride, target, "topologyConstraint")
}

func roleOverride(role *nvidiav1beta1.MultinodeRole) (json.RawMessage, bool) {
	switch {
	case role == nil:
		return nil, true
	case role.ProviderOverride == nil:
		return nil, false
	}
	return constraintIn(role.ProviderOverride, targetClique, "topologyConstraint")
}

// constraintIn is the object at the end of a path, when the override holds nothing else and nothing is in it but Grove's own fields.
func constraintIn(o *nvidiav1beta1.ProviderOverride, target string, path ...string) (json.RawMessage, bool) {
	if o == nil {
		return nil, true
	}
	if o.APIVersion != groveVersion || o.Target != "" && o.Target != target {
		return nil, false
	}
	raw := json.RawMessage(o.Value.Raw)
	for _, name := range path {
		fields := map[string]json.RawMessage{}
		if json.Unmarshal(raw, &fields) != nil || len(fields) != 1 || fields[name] == nil {
			return nil, false
		}
		raw = fields[name]
	}
	known := struct {
		TopologyName string `json:"topologyName"`
		PackDomain   string `json:"packDomain"`
		Pack         *struct {
			Required  string `json:"required"`
			Preferred string `json:"preferred"`
		} `json:"pack"`
	}{}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) || strict.Decode(&known) != nil {
		return nil, false
	}
	return raw, true
}
