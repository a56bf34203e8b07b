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
	// GroveRollingRecreate makes Grove replace pods replica by replica.
	GroveRollingRecreate = "RollingRecreate"
	// GroveOnDelete makes Grove replace a pod only when someone deletes it.
	GroveOnDelete = "OnDelete"

	groveVersion = "grove.io/v1alpha1"
	targetSet    = "PodCliqueSet"
	targetClique = "PodCliqueTemplateSpec"
	targetGroup  = "PodCliqueScalingGroupConfig"
)

// ComponentOverrides are a component's overrides for Grove's topology constraints: Unit for the component's clique or scaling group, Leader
// and Worker for the cliques of the leader and the workers; nil for none.
type ComponentOverrides struct{ Unit, Leader, Worker json.RawMessage }

// Overrides are a deployment's overrides for Grove's topology constraints. Each override is a JSON object.
type Overrides struct {
	Set        json.RawMessage
	Components map[string]ComponentOverrides
}

// GroveOverrides reads the provider overrides of a deployment. It omits overrides of anything other than topology constraints; see
// [NotActedOn].
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

// OverrideProblem is the reason why a provider override is ignored.
type OverrideProblem struct {
	// Path of the field.
	Path *field.Path
	// Value of the field; "" if a message should not quote it.
	Value string
	// Text describes the valid value.
	Text string
}

// OverrideProblems lists the reasons why a deployment's provider overrides are ignored under Grove: first for the deployment's own
// override, then for the overrides of components, sorted by component name. It omits overrides of a scaling group that only
// forceScalingGroup would create, because Trellis does not act on that field.
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

// overridePlace is a kind of Grove object that an override changes: its type, and the path of its constraint.
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

// setOverride returns the deployment's own override; false if the override has a problem.
func setOverride(dgd *nvidiav1beta1.DynamoGraphDeployment) (json.RawMessage, bool) {
	return ofSet.constraintIn(dgd.Spec.ProviderOverride)
}

func unitOverride(c *nvidiav1beta1.ComponentSpec) (json.RawMessage, bool) {
	return placeOf(c).constraintIn(c.ProviderOverride)
}

// roleOverride returns the override of a role, from the field "roles" or, if this field has none, from the role's former field. It returns
// nil if there is no override, or if the former field cannot be read.
func roleOverride(c *nvidiav1beta1.ComponentSpec, role string) *nvidiav1beta1.ProviderOverride {
	if r := c.Role(role); r != nil && r.ProviderOverride != nil {
		return r.ProviderOverride
	}
	return formerOverride(formerRole(c, role))
}

// formerRole returns multinode.leader or multinode.worker, which held a role before the field "roles".
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

// constraintIn returns the topology constraint of an override; false if the override has a problem.
func (at overridePlace) constraintIn(o *nvidiav1beta1.ProviderOverride) (json.RawMessage, bool) {
	if o == nil {
		return nil, true
	}
	if at.problem(o, nil) != nil {
		return nil, false
	}
	return at.value(o), true
}

// problem returns the reason why an override, at path, is ignored; nil if the override is valid.
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

// value returns the JSON value at the end of the path; nil if the override has any field outside the path.
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
