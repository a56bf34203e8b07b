// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/provider/lws/maker"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// setsIn is LeaderWorkerSet in a certain state.
type setsIn struct {
	maker.Maker
	state provider.State
}

func (s setsIn) Probe(context.Context) (provider.State, error) { return s.state, nil }

// What makes the pods has to work as well as what places them, and stays while there are pods.
func TestWorkloadCondition(t *testing.T) {
	notServed := provider.State{Reason: nvidiav1beta1.ReasonAPINotServed, Message: "they are not served"}
	const inSets = "Gates, chosen by default; multinode components have the workload LeaderWorkerSet"
	const stays = "; what the annotation trellis.dev/workload asks for takes its place once the deployment has no pods: scale all its components to 0 and back, or recreate it"
	cases := map[string]struct {
		annotation, provider string
		single               bool
		state                provider.State
		frozen               string
		replicas             int32
		workload             string
		want                 condition
	}{
		"asked for and there": {
			annotation: "LeaderWorkerSet", state: provider.Ready(), workload: "LeaderWorkerSet",
			want: condition{is: true, reason: "ProviderAvailable", message: inSets},
		},
		"not served": {
			annotation: "LeaderWorkerSet", state: notServed, workload: "LeaderWorkerSet",
			want: condition{reason: "APINotServed", message: inSets + ", cannot be used: they are not served; nothing new is created until then, and running pods stay unchanged"},
		},
		"nothing is multinode": {
			annotation: "LeaderWorkerSet", single: true, state: notServed,
			want: condition{is: true, reason: "ProviderAvailable", message: "Gates, chosen by default"},
		},
		"a provider that cannot place them, before anything is made": {
			annotation: "LeaderWorkerSet", provider: specs.PodGroup.Name, state: provider.Ready(), workload: "LeaderWorkerSet",
			want: condition{reason: "ProviderUnsupported", message: "PodGroup, chosen by the operator's flag --provider; multinode components have the workload LeaderWorkerSet, cannot place this graph: " +
				"LeaderWorkerSets can be placed by Gates and KAI, not by PodGroup; choose one of them, or remove the annotation trellis.dev/workload"},
		},
		"asked for, and there are pods of our own": {
			annotation: "LeaderWorkerSet", state: notServed, replicas: 1,
			want: condition{is: true, reason: "ProviderFrozen", message: "Gates, chosen by default; multinode components have the workload Pods" + stays},
		},
		"not asked for any more, and there are pods": {
			state: provider.Ready(), frozen: "LeaderWorkerSet", replicas: 1, workload: "LeaderWorkerSet",
			want: condition{is: true, reason: "ProviderFrozen", message: inSets + stays},
		},
		"not asked for any more, and there are none": {
			state: provider.Ready(), frozen: "LeaderWorkerSet",
			want: condition{is: true, reason: "ProviderAvailable", message: "Gates, chosen by default"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := fine()
			o.dgd.Annotations = map[string]string{render.AnnotationWorkload: c.annotation}
			o.dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "work", Multinode: &nvidiav1beta1.MultinodeSpec{NodeCount: 2}}}
			if c.single {
				o.dgd.Component("work").Multinode = nil
			}
			o.stated = constraint.StatementOf(o.dgd)
			sg := o.groups["work"]
			sg.Spec.Multinode, sg.Spec.Provider, sg.Spec.Workload, sg.Status.Replicas = !c.single, specs.Gates.Name, c.frozen, c.replicas
			podGroup := picky{name: specs.PodGroup.Name, state: provider.Ready()}
			r := &Reconciler{Providers: provider.New(provider.Options{}, provider.All{
				Placers: []provider.Placer{gates.Placer{}, podGroup}, Makers: []provider.Maker{setsIn{state: c.state}},
			}), Provider: c.provider}
			o.provider = r.providerOf(t.Context(), o)
			if o.provider.workload != c.workload {
				t.Errorf("workload %q, want %q", o.provider.workload, c.workload)
			}
			c.want.kind = nvidiav1beta1.ConditionProviderReady
			if diff := cmp.Diff(c.want, *providerCondition(o), cmp.AllowUnexported(condition{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
