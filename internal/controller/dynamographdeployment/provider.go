// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// formerProviderReady is the type under which older operators set the condition ProviderReady.
const formerProviderReady = "EngineReady"

// providerView is the provider of a deployment in one reconcile.
type providerView struct {
	render.ProviderChoice
	// asked is the provider that would be chosen for a new deployment. A deployment with pods of another provider keeps that provider.
	asked render.ProviderChoice
	state provider.State
	// unsuited is the reason why the provider cannot place this graph; "" if it can.
	unsuited string
	// workload is the name of the maker ([provider.Maker]), such as LeaderWorkerSet, that creates the pods of multinode components; "":
	// Trellis creates them. askedWorkload is the name of the maker that would be chosen for a new deployment.
	workload, askedWorkload string
}

// providerOf chooses the provider of a deployment. If the deployment has pods, it keeps their provider.
func (r *Reconciler) providerOf(ctx context.Context, o observed) providerView {
	v := providerView{asked: render.ChooseProvider(o.dgd, r.Provider)}
	if o.stated.Multinode {
		v.askedWorkload = render.ChooseWorkload(o.dgd)
	}
	v.ProviderChoice = v.asked
	if frozen := frozenProvider(o.groups); frozen != "" && frozen != v.asked.Name {
		v.ProviderChoice = render.ProviderChoice{Name: frozen, Why: "when the deployment got its pods"}
	}
	v.state = r.Providers.State(ctx, v.Name)
	if one := r.Providers.Get(v.Name); one != nil {
		v.unsuited = one.Unsuited(inOrder(o))
	}
	r.addWorkload(ctx, o, &v)
	return v
}

// addWorkload sets the maker that creates the pods of multinode components. The resulting state is Ready only if the provider and the maker
// are ready.
func (r *Reconciler) addWorkload(ctx context.Context, o observed, v *providerView) {
	if !o.stated.Multinode {
		return
	}
	v.workload = v.askedWorkload
	if sg := frozenMultinode(o.groups); sg != nil {
		v.workload = sg.Spec.Workload
	}
	if v.workload == "" {
		return
	}
	if v.state.Ready {
		v.state = r.Providers.State(ctx, v.workload)
	}
	if maker := r.Providers.Maker(v.workload); maker != nil && v.unsuited == "" {
		group := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Provider: v.Name, Workload: v.workload}}
		v.unsuited = maker.Unsuited([]*trellisv1alpha1.ScalingGroup{group}) // the deployment may have no group yet
	}
}

// frozenMultinode returns the group of a multinode component that has pods or may be creating pods; nil for none.
func frozenMultinode(groups map[string]*trellisv1alpha1.ScalingGroup) *trellisv1alpha1.ScalingGroup {
	for _, sg := range groups {
		if sg.Spec.Multinode && hasPods(sg) && !render.EditOf(sg).Any("workload") {
			return sg
		}
	}
	return nil
}

// hasPods reports whether a group has pods or may be creating pods.
func hasPods(sg *trellisv1alpha1.ScalingGroup) bool {
	return sg.Status.Replicas > 0 || sg.Status.ObservedGeneration != sg.Generation
}

// frozenProvider returns the provider of the groups while a group has pods or may be creating pods; "" for none.
func frozenProvider(groups map[string]*trellisv1alpha1.ScalingGroup) string {
	for _, sg := range groups {
		if hasPods(sg) && !render.EditOf(sg).Any("engine") {
			return sg.Spec.Provider
		}
	}
	return ""
}

// providerCondition reports the provider of the deployment, the reason for its choice, and whether it works in this cluster.
func providerCondition(o observed) *condition {
	const kind = nvidiav1beta1.ConditionProviderReady
	chosen := fmt.Sprintf("%s, chosen %s", o.provider.Name, o.provider.Why)
	if o.provider.workload != o.provider.askedWorkload || o.provider.workload != "" {
		chosen += "; multinode components have the workload " + cmp.Or(o.provider.workload, specs.Pods)
	}
	switch {
	case !o.provider.state.Ready:
		return no(kind, o.provider.state.Reason, fmt.Sprintf("%s, cannot be used: %s; nothing new is created until then, and running pods "+
			"stay unchanged", chosen, o.provider.state.Message))
	case o.provider.unsuited != "":
		return no(kind, nvidiav1beta1.ReasonProviderUnsupported, fmt.Sprintf("%s, cannot place this graph: %s", chosen, o.provider.unsuited))
	case o.provider.askedWorkload != o.provider.workload:
		return yes(kind, nvidiav1beta1.ReasonProviderFrozen,
			fmt.Sprintf("%s; what the annotation %s asks for takes its place once the deployment has no pods: scale all its components to 0 and "+
				"back, or recreate it",
				chosen, render.AnnotationWorkload))
	case o.provider.asked.Name != o.provider.Name:
		return yes(kind, nvidiav1beta1.ReasonProviderFrozen,
			fmt.Sprintf("%s; %s, asked for %s, takes its place once the deployment has no pods: scale all its components to 0 and back, or "+
				"recreate it",
				chosen, o.provider.asked.Name, o.provider.asked.Why))
	}
	if o.provider.state.Message != "" {
		chosen += "; " + o.provider.state.Message
	}
	return yes(kind, nvidiav1beta1.ReasonProviderAvailable, chosen)
}

// applyWorkload applies the objects from which a provider makes the pods itself.
func (r *Reconciler) applyWorkload(ctx context.Context, o observed, wanted *render.Graph) error {
	workload := r.Providers.Workload(o.provider.Name)
	if workload == nil || !o.provider.state.Ready || o.provider.unsuited != "" || o.dgd.Labels[render.LabelKueueQueue] != "" {
		return nil
	}
	return workload.Apply(ctx, o.dgd, wanted.ScalingGroups())
}

func (r *Reconciler) observeWorkload(ctx context.Context, o observed) (*provider.Observation, error) {
	workload := r.Providers.Workload(o.provider.Name)
	if workload == nil {
		return nil, nil
	}
	observation, err := workload.Observe(ctx, r.Providers.Own(o.provider.Name), inOrder(o))
	if err != nil {
		return nil, fmt.Errorf("reading the state of the workload of provider %s: %w", o.provider.Name, err)
	}
	return &observation, nil
}

// inOrder returns the deployment's scaling groups, sorted by component name.
func inOrder(o observed) []*trellisv1alpha1.ScalingGroup {
	return slices.SortedFunc(maps.Values(o.groups), func(a, b *trellisv1alpha1.ScalingGroup) int {
		return cmp.Compare(a.Spec.Component, b.Spec.Component)
	})
}
