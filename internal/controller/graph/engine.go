// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"fmt"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// engineView is the engine of a deployment as one reconcile sees it.
type engineView struct {
	graph.EngineChoice
	// asked is the engine that would be chosen today; it differs where the deployment has pods made for another one.
	asked graph.EngineChoice
	state engine.State
	// unsuited says why the engine cannot hold this graph together.
	unsuited string
}

// engineOf chooses the engine of a deployment, unless it has pods: those decide.
func (r *Reconciler) engineOf(ctx context.Context, o observed) engineView {
	v := engineView{asked: graph.ChooseEngine(o.dgd, r.Engine)}
	v.EngineChoice = v.asked
	if frozen := frozenEngine(o.groups); frozen != "" && frozen != v.asked.Name {
		v.EngineChoice = graph.EngineChoice{Name: frozen, Why: "when the deployment got its pods"}
	}
	v.state = r.Engines.State(ctx, v.Name)
	if one := r.Engines.Get(v.Name); one != nil {
		v.unsuited = one.Unsuited(inOrder(o))
	}
	return v
}

// frozenEngine is what the groups carry, as long as one of them has pods or may be making some; "" when none has.
func frozenEngine(groups map[string]*trellisv1alpha1.ScalingGroup) string {
	for _, sg := range groups {
		if sg.Status.Replicas > 0 || sg.Status.ObservedGeneration != sg.Generation {
			return sg.Spec.Engine
		}
	}
	return ""
}

// engineCondition says what gets the deployment's gangs onto nodes, why that, and whether it works here.
func engineCondition(o observed) *condition {
	const kind = nvidiav1alpha1.ConditionEngineReady
	chosen := fmt.Sprintf("%s, chosen %s", o.engine.Name, o.engine.Why)
	switch {
	case !o.engine.state.Ready:
		return no(kind, o.engine.state.Reason, fmt.Sprintf("%s, cannot be used: %s; nothing new is made until then, and what runs is left alone", chosen, o.engine.state.Message))
	case o.engine.unsuited != "":
		return no(kind, nvidiav1alpha1.ReasonEngineUnsupported, fmt.Sprintf("%s, cannot place this graph: %s", chosen, o.engine.unsuited))
	case o.engine.asked.Name != o.engine.Name:
		return yes(kind, nvidiav1alpha1.ReasonEngineFrozen, fmt.Sprintf("%s; %s, asked for %s, takes its place once the deployment has no pods: scale all its services to 0 and back, or recreate it",
			chosen, o.engine.asked.Name, o.engine.asked.Why))
	}
	return yes(kind, nvidiav1alpha1.ReasonEngineAvailable, chosen)
}

// applyWorkload has an engine that makes the pods itself do so.
func (r *Reconciler) applyWorkload(ctx context.Context, o observed, wanted *graph.Graph) error {
	workload := r.Engines.Workload(o.engine.Name)
	if workload == nil || !o.engine.state.Ready || o.engine.unsuited != "" {
		return nil
	}
	return workload.Apply(ctx, o.dgd, wanted.ScalingGroups())
}

func (r *Reconciler) observeWorkload(ctx context.Context, o observed) (*engine.Observation, error) {
	workload := r.Engines.Workload(o.engine.Name)
	if workload == nil {
		return nil, nil
	}
	observation, err := workload.Observe(ctx, r.Engines.Own(o.engine.Name), inOrder(o))
	if err != nil {
		return nil, fmt.Errorf("reading what has come of the workload of engine %s: %w", o.engine.Name, err)
	}
	return &observation, nil
}

// inOrder are the deployment's scaling groups by service name.
func inOrder(o observed) []*trellisv1alpha1.ScalingGroup {
	groups := make([]*trellisv1alpha1.ScalingGroup, 0, len(o.groups))
	for _, name := range sortedNames(o) {
		if sg := o.groups[name]; sg != nil {
			groups = append(groups, sg)
		}
	}
	return groups
}
