// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/engine/gates"
	"github.com/trellis-k8s/trellis/internal/engine/lws/maker"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// sets is LeaderWorkerSet in a certain state.
type sets struct {
	maker.Maker
	state engine.State
}

func (s sets) Probe(context.Context) (engine.State, error) { return s.state, nil }

// What makes the pods has to work as well as what places them, and stays while there are pods.
func TestWorkloadCondition(t *testing.T) {
	notServed := engine.State{Reason: nvidiav1beta1.ReasonAPINotServed, Message: "they are not served"}
	const inSets = "Gates, chosen by default; multinode services have the workload LeaderWorkerSet"
	const stays = "; what the annotation trellis.dev/workload asks for takes its place once the deployment has no pods: scale all its services to 0 and back, or recreate it"
	cases := map[string]struct {
		annotation, engine string
		single             bool
		state              engine.State
		frozen             string
		replicas           int32
		workload           string
		want               condition
	}{
		"asked for and there": {
			annotation: "LeaderWorkerSet", state: engine.Ready(), workload: "LeaderWorkerSet",
			want: condition{is: true, reason: "EngineAvailable", message: inSets},
		},
		"not served": {
			annotation: "LeaderWorkerSet", state: notServed, workload: "LeaderWorkerSet",
			want: condition{reason: "APINotServed", message: inSets + ", cannot be used: they are not served; nothing new is made until then, and what runs is left alone"},
		},
		"nothing is multinode": {
			annotation: "LeaderWorkerSet", single: true, state: notServed,
			want: condition{is: true, reason: "EngineAvailable", message: "Gates, chosen by default"},
		},
		"an engine that cannot place them, before anything is made": {
			annotation: "LeaderWorkerSet", engine: graph.EnginePodGroup, state: engine.Ready(), workload: "LeaderWorkerSet",
			want: condition{reason: "EngineUnsupported", message: "PodGroup, chosen by the operator's flag --engine; multinode services have the workload LeaderWorkerSet, cannot place this graph: " +
				"LeaderWorkerSets can be placed by Gates and KAI, not by PodGroup; choose one of them, or remove the annotation trellis.dev/workload"},
		},
		"asked for, and there are pods of our own": {
			annotation: "LeaderWorkerSet", state: notServed, replicas: 1,
			want: condition{is: true, reason: "EngineFrozen", message: "Gates, chosen by default; multinode services have the workload Pods" + stays},
		},
		"not asked for any more, and there are pods": {
			state: engine.Ready(), frozen: "LeaderWorkerSet", replicas: 1, workload: "LeaderWorkerSet",
			want: condition{is: true, reason: "EngineFrozen", message: inSets + stays},
		},
		"not asked for any more, and there are none": {
			state: engine.Ready(), frozen: "LeaderWorkerSet",
			want: condition{is: true, reason: "EngineAvailable", message: "Gates, chosen by default"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := fine()
			o.dgd.Annotations = map[string]string{graph.AnnotationWorkload: c.annotation}
			o.dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "work", Multinode: &nvidiav1beta1.MultinodeSpec{NodeCount: 2}}}
			if c.single {
				o.dgd.Component("work").Multinode = nil
			}
			sg := o.groups["work"]
			sg.Spec.Multinode, sg.Spec.Engine, sg.Spec.Workload, sg.Status.Replicas = !c.single, graph.EngineGates, c.frozen, c.replicas
			podGroup := picky{name: graph.EnginePodGroup, state: engine.Ready()}
			r := &Reconciler{Engines: engine.New(engine.Options{}, gates.Placer{}, podGroup, sets{state: c.state}), Engine: c.engine}
			o.engine = r.engineOf(t.Context(), o)
			if o.engine.workload != c.workload {
				t.Errorf("workload %q, want %q", o.engine.workload, c.workload)
			}
			c.want.kind = nvidiav1beta1.ConditionEngineReady
			if diff := cmp.Diff(c.want, *engineCondition(o), cmp.AllowUnexported(condition{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
