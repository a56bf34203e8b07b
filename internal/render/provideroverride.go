// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"strings"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

const (
	// GroveRollingRecreate replaces pods replica by replica.
	GroveRollingRecreate = "RollingRecreate"
	// GroveOnDelete replaces a pod when someone deletes it.
	GroveOnDelete = "OnDelete"

	groveVersion = "grove.io/v1alpha1"
	targetSet    = "PodCliqueSet"
	targetClique = "PodCliqueTemplateSpec"
	targetGroup  = "PodCliqueScalingGroupConfig"
)

// ComponentOverrides are what a component writes into Grove's topology constraints: of its clique or scaling group, and of the cliques of
// leader and workers. nil: nothing.
type ComponentOverrides struct{ Unit, Leader, Worker json.RawMessage }

// Overrides are what a deployment writes into Grove's topology constraints, each a JSON object.
type Overrides struct {
	Set        json.RawMessage
	Components map[string]ComponentOverrides
}

// GroveOverrides reads the provider overrides of a deployment. Those that say anything else are left out; see [NotActedOn].
func GroveOverrides(dgd *nvidiav1beta1.DynamoGraphDeployment) Overrides {
	out := Overrides{Components: map[string]ComponentOverrides{}}
	out.Set, _ = setOverride(dgd)
	for _, c := range Components(dgd) {
		var s ComponentOverrides
		s.Unit, _ = unitOverride(c)
		s.Leader, _ = ofClique.constraintIn(roleOverride(c, nvidiav1beta1.RoleLeader))
		s.Worker, _ = ofClique.constraintIn(roleOverride(c, nvidiav1beta1.RoleWorker))
		out.Components[c.Name] = s
	}
	return out
}

// OverrideProblem is why a provider override is left out.
type OverrideProblem struct {
	// Path of the field.
	Path *field.Path
	// Value it has, empty where there is none to repeat.
	Value string
	// Text describes what to write instead.
	Text string
}

// OverrideProblems lists why provider overrides of a deployment are left out under Grove: first the deployment's own, then those of
// components by name. One whose target is a scaling group that the component only has with forceScalingGroup, which is not acted on, is no
// problem.
func OverrideProblems(dgd *nvidiav1beta1.DynamoGraphDeployment) []OverrideProblem {
	var problems []OverrideProblem
	add := func(path *field.Path, o *nvidiav1beta1.ProviderOverride, at overridePlace) {
		if o == nil {
			return
		}
		if p := at.problem(o, path.Child("providerOverride")); p != nil {
			problems = append(problems, *p)
		}
	}
	add(field.NewPath("spec"), dgd.Spec.ProviderOverride, ofSet)
	for _, c := range Components(dgd) {
		path := PathOf(dgd, c.Name)
		if o := c.ProviderOverride; o != nil && (o.Target != targetGroup || c.Experimental == nil || c.Experimental.Grove == nil) {
			add(path, o, placeOf(c))
		}
		for i := range c.Roles {
			add(path.Child("roles").Key(c.Roles[i].Name), c.Roles[i].ProviderOverride, ofClique)
		}
	}
	return problems
}

// overridePlace is an object of Grove that an override writes into: its type, and where its constraint is.
type overridePlace struct {
	target string
	path   []string
}

var (
	ofSet    = overridePlace{targetSet, []string{"spec", "template", "topologyConstraint"}}
	ofClique = overridePlace{targetClique, []string{"topologyConstraint"}}
	ofGroup  = overridePlace{targetGroup, []string{"topologyConstraint"}}
)

func placeOf(c *nvidiav1beta1.ComponentSpec) overridePlace {
	if _, multinode := c.PodsPerReplica(); multinode {
		return ofGroup
	}
	return ofClique
}

// setOverride is the deployment's own; false for one that is there and is not understood.
func setOverride(dgd *nvidiav1beta1.DynamoGraphDeployment) (json.RawMessage, bool) {
	return ofSet.constraintIn(dgd.Spec.ProviderOverride)
}

func unitOverride(c *nvidiav1beta1.ComponentSpec) (json.RawMessage, bool) {
	return placeOf(c).constraintIn(c.ProviderOverride)
}

// roleOverride is the override of a role, from roles or else from where it was before roles. nil: none, or none that can be read.
func roleOverride(c *nvidiav1beta1.ComponentSpec, role string) *nvidiav1beta1.ProviderOverride {
	if r := c.Role(role); r != nil && r.ProviderOverride != nil {
		return r.ProviderOverride
	}
	return formerOverride(formerRole(c, role))
}

// formerRole is multinode.leader or multinode.worker, which roles has replaced.
func formerRole(c *nvidiav1beta1.ComponentSpec, role string) *nvidiav1beta1.FreeObject {
	switch {
	case c.Multinode == nil:
		return nil
	case role == nvidiav1beta1.RoleLeader:
		return c.Multinode.Leader
	}
	return c.Multinode.Worker
}

func formerOverride(former *nvidiav1beta1.FreeObject) *nvidiav1beta1.ProviderOverride {
	if former == nil {
		return nil
	}
	var settings struct {
		ProviderOverride *nvidiav1beta1.ProviderOverride `json:"providerOverride"`
	}
	strict := json.NewDecoder(bytes.NewReader(former.Raw))
	strict.DisallowUnknownFields()
	if strict.Decode(&settings) != nil {
		return nil
	}
	return settings.ProviderOverride
}

// constraintIn is the topology constraint in an override that has no problem.
func (at overridePlace) constraintIn(o *nvidiav1beta1.ProviderOverride) (json.RawMessage, bool) {
	if o == nil {
		return nil, true
	}
	if at.problem(o, nil) != nil {
		return nil, false
	}
	return at.value(o), true
}

// problem of the override that is at path; nil for none.
func (at overridePlace) problem(o *nvidiav1beta1.ProviderOverride, path *field.Path) *OverrideProblem {
	switch {
	case o.APIVersion != groveVersion:
		return &OverrideProblem{Path: path.Child("apiVersion"), Value: o.APIVersion, Text: "must be " + groveVersion}
	case o.Target != "" && o.Target != at.target:
		return &OverrideProblem{Path: path.Child("target"), Value: o.Target, Text: "must be " + at.target + " here; correct it, or leave it out"}
	}
	known := struct {
		TopologyName string `json:"topologyName"`
		PackDomain   string `json:"packDomain"`
		Pack         *struct {
			Required  string `json:"required"`
			Preferred string `json:"preferred"`
		} `json:"pack"`
	}{}
	raw := at.value(o)
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) || strict.Decode(&known) != nil {
		return &OverrideProblem{Path: path.Child("value"), Text: "must hold " + strings.Join(at.path, ".") +
			" and nothing else, with topologyName and pack {required, preferred}"}
	}
	return nil
}

// value is the object at the end of the path, when the override holds nothing else.
func (at overridePlace) value(o *nvidiav1beta1.ProviderOverride) json.RawMessage {
	raw := json.RawMessage(o.Value.Raw)
	for _, name := range at.path {
		fields := map[string]json.RawMessage{}
		if json.Unmarshal(raw, &fields) != nil || len(fields) != 1 || fields[name] == nil {
			return nil
		}
		raw = fields[name]
	}
	return raw
}
