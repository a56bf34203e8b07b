// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"context"
	"fmt"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
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
	// workload makes the pods of multinode services, "": Trellis; askedWorkload is the one that would be chosen today.
	workload, askedWorkload string
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
	r.addWorkload(ctx, o, &v)
	return v
}

// addWorkload adds what makes the pods of multinode services, where there are any: then that has to work here, too.
func (r *Reconciler) addWorkload(ctx context.Context, o observed, v *engineView) {
	if !constraint.HasMultinode(o.dgd) {
		return
	}
	v.askedWorkload = graph.ChooseWorkload(o.dgd)
	v.workload = v.askedWorkload
	if sg := frozenMultinode(o.groups); sg != nil {
		v.workload = sg.Spec.Workload
	}
	if v.workload == "" {
		return
	}
	if v.state.Ready {
		v.state = r.Engines.State(ctx, v.workload)
	}
	if maker := r.Engines.Maker(v.workload); maker != nil && v.unsuited == "" {
		group := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Engine: v.Name, Workload: v.workload}}
		v.unsuited = maker.Unsuited([]*trellisv1alpha1.ScalingGroup{group}) // there may be none yet
	}
}

// frozenMultinode is a group of a multinode service that has pods or may be making some; nil when there is none.
func frozenMultinode(groups map[string]*trellisv1alpha1.ScalingGroup) *trellisv1alpha1.ScalingGroup {
	for _, sg := range groups {
		if sg.Spec.Multinode && hasPods(sg) {
			return sg
		}
	}
	return nil
}

// hasPods says that a group has pods, or may be making some.
func hasPods(sg *trellisv1alpha1.ScalingGroup) bool {
	return sg.Status.Replicas > 0 || sg.Status.ObservedGeneration != sg.Generation
}

// frozenEngine is what the groups carry, as long as one of them has pods or may be making some; "" when none has.
func frozenEngine(groups map[string]*trellisv1alpha1.ScalingGroup) string {
	for _, sg := range groups {
		if hasPods(sg) {
			return sg.Spec.Engine
		}
	}
	return ""
}

// engineCondition says what gets the deployment's gangs onto nodes, why that, and whether it works here.
func engineCondition(o observed) *condition {
	const kind = nvidiav1beta1.ConditionEngineReady
	chosen := fmt.Sprintf("%s, chosen %s", o.engine.Name, o.engine.Why)
	if o.engine.workload != o.engine.askedWorkload || o.engine.workload != "" {
		chosen += "; multinode services have the workload " + cmp.Or(o.engine.workload, graph.WorkloadPods)
	}
	switch {
	case !o.engine.state.Ready:
		return no(kind, o.engine.state.Reason, fmt.Sprintf("%s, cannot be used: %s; nothing new is made until then, and what runs is left alone", chosen, o.engine.state.Message))
	case o.engine.unsuited != "":
		return no(kind, nvidiav1beta1.ReasonEngineUnsupported, fmt.Sprintf("%s, cannot place this graph: %s", chosen, o.engine.unsuited))
	case o.engine.askedWorkload != o.engine.workload:
		return yes(kind, nvidiav1beta1.ReasonEngineFrozen, fmt.Sprintf("%s; what the annotation %s asks for takes its place once the deployment has no pods: scale all its services to 0 and back, or recreate it",
			chosen, graph.AnnotationWorkload))
	case o.engine.asked.Name != o.engine.Name:
		return yes(kind, nvidiav1beta1.ReasonEngineFrozen, fmt.Sprintf("%s; %s, asked for %s, takes its place once the deployment has no pods: scale all its services to 0 and back, or recreate it",
			chosen, o.engine.asked.Name, o.engine.asked.Why))
	}
	return yes(kind, nvidiav1beta1.ReasonEngineAvailable, chosen)
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
