// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// picky is a provider in a certain state that finds certain graphs unsuited.
type picky struct {
	provider.Placer
	name     string
	state    provider.State
	unsuited string
}

func (p picky) Name() string                                    { return p.name }
func (p picky) Probe(context.Context) (provider.State, error)   { return p.state, nil }
func (p picky) Unsuited([]*trellisv1alpha1.ScalingGroup) string { return p.unsuited }
func (p picky) Watches() []provider.Watch                       { return nil }

func TestProviderCondition(t *testing.T) {
	notServed := provider.State{Reason: nvidiav1beta1.ReasonAPINotServed, Message: "podgroups are not served; switch them on"}
	cases := map[string]struct {
		annotation, preset string
		podGroup           picky
		// frozen is the provider in the group's spec; replicas are those it has.
		frozen   string
		replicas int32
		pending  bool
		provider string
		want     condition
	}{
		"the default": {
			provider: "Gates", want: condition{is: true, reason: "ProviderAvailable", message: "Gates, chosen by default"},
		},
		"asked for and there": {
			annotation: "PodGroup", podGroup: picky{state: provider.Ready()},
			provider: "PodGroup", want: condition{is: true, reason: "ProviderAvailable", message: "PodGroup, chosen by the annotation trellis.dev/provider"},
		},
		"there, with a limit": {
			annotation: "PodGroup", podGroup: picky{state: provider.State{Ready: true, Reason: nvidiav1beta1.ReasonProviderAvailable, Message: "mind the gap"}},
			provider: "PodGroup", want: condition{is: true, reason: "ProviderAvailable", message: "PodGroup, chosen by the annotation trellis.dev/provider; mind the gap"},
		},
		"the API is not served": {
			preset: "PodGroup", podGroup: picky{state: notServed},
			provider: "PodGroup", want: condition{reason: "APINotServed", message: "PodGroup, chosen by the operator's flag --provider, cannot be used: " +
				"podgroups are not served; switch them on; nothing new is created until then, and running pods stay unchanged"},
		},
		"the graph does not suit it": {
			annotation: "PodGroup", podGroup: picky{state: provider.Ready(), unsuited: "two priorities"},
			provider: "PodGroup", want: condition{reason: "ProviderUnsupported", message: "PodGroup, chosen by the annotation trellis.dev/provider, cannot place this graph: two priorities"},
		},
		"nobody has such a provider": {
			annotation: "KAI", provider: "KAI", want: condition{reason: "ProviderUnsupported", message: "KAI, chosen by the annotation trellis.dev/provider, cannot be used: " +
				`this version of Trellis has no provider "KAI"; nothing new is created until then, and running pods stay unchanged`},
		},
		"another one is asked for, and there are pods": {
			annotation: "PodGroup", frozen: "Gates", replicas: 1, podGroup: picky{state: provider.Ready()},
			provider: "Gates", want: condition{is: true, reason: "ProviderFrozen", message: "Gates, chosen when the deployment got its pods; PodGroup, asked for by the annotation " +
				"trellis.dev/provider, takes its place once the deployment has no pods: scale all its components to 0 and back, or recreate it"},
		},
		"another one is asked for, and pods may be in the making": {
			annotation: "PodGroup", frozen: "Gates", pending: true, podGroup: picky{state: provider.Ready()},
			provider: "Gates", want: condition{is: true, reason: "ProviderFrozen", message: "Gates, chosen when the deployment got its pods; PodGroup, asked for by the annotation " +
				"trellis.dev/provider, takes its place once the deployment has no pods: scale all its components to 0 and back, or recreate it"},
		},
		"another one is asked for, and there are no pods": {
			annotation: "PodGroup", frozen: "Gates", podGroup: picky{state: provider.Ready()},
			provider: "PodGroup", want: condition{is: true, reason: "ProviderAvailable", message: "PodGroup, chosen by the annotation trellis.dev/provider"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := fine()
			if c.annotation != "" {
				o.dgd.Annotations = map[string]string{render.AnnotationProvider: c.annotation}
			}
			sg := o.groups["work"]
			sg.Spec.Provider, sg.Status.Replicas = c.frozen, c.replicas
			if c.pending {
				sg.Status.ObservedGeneration--
			}
			c.podGroup.name = specs.PodGroup.Name
			r := &Reconciler{Providers: provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{gates.Placer{}, c.podGroup}}), Provider: c.preset}
			o.provider = r.providerOf(t.Context(), o)
			got := statusOf(o, resolved, nil, nil)
			if got.Provider != c.provider {
				t.Errorf("status.engine = %q, want %q", got.Provider, c.provider)
			}
			c.want.kind = nvidiav1beta1.ConditionProviderReady
			if diff := cmp.Diff(c.want, *providerCondition(o), cmp.AllowUnexported(condition{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
