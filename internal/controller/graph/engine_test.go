// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/engine/gates"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// picky is an engine in a certain state that finds certain graphs unsuited.
type picky struct {
	name     string
	state    engine.State
	unsuited string
}

func (p picky) Name() string                                    { return p.name }
func (p picky) Probe(context.Context) (engine.State, error)     { return p.state, nil }
func (p picky) Unsuited([]*trellisv1alpha1.ScalingGroup) string { return p.unsuited }
func (p picky) Watches() []engine.Watch                         { return nil }

func TestEngineCondition(t *testing.T) {
	notServed := engine.State{Reason: nvidiav1beta1.ReasonAPINotServed, Message: "podgroups are not served; switch them on"}
	cases := map[string]struct {
		annotation, preset string
		podGroup           picky
		// frozen is the engine in the group's spec; replicas are those it has.
		frozen   string
		replicas int32
		pending  bool
		engine   string
		want     condition
	}{
		"the default": {
			engine: "Gates", want: condition{is: true, reason: "EngineAvailable", message: "Gates, chosen by default"},
		},
		"asked for and there": {
			annotation: "PodGroup", podGroup: picky{state: engine.Ready()},
			engine: "PodGroup", want: condition{is: true, reason: "EngineAvailable", message: "PodGroup, chosen by the annotation trellis.dev/engine"},
		},
		"the API is not served": {
			preset: "PodGroup", podGroup: picky{state: notServed},
			engine: "PodGroup", want: condition{reason: "APINotServed", message: "PodGroup, chosen by the operator's flag --engine, cannot be used: " +
				"podgroups are not served; switch them on; nothing new is made until then, and what runs is left alone"},
		},
		"the graph does not suit it": {
			annotation: "PodGroup", podGroup: picky{state: engine.Ready(), unsuited: "two priorities"},
			engine: "PodGroup", want: condition{reason: "EngineUnsupported", message: "PodGroup, chosen by the annotation trellis.dev/engine, cannot place this graph: two priorities"},
		},
		"nobody has such an engine": {
			annotation: "KAI", engine: "KAI", want: condition{reason: "EngineUnsupported", message: "KAI, chosen by the annotation trellis.dev/engine, cannot be used: " +
				`this version of Trellis has no engine "KAI"; nothing new is made until then, and what runs is left alone`},
		},
		"another one is asked for, and there are pods": {
			annotation: "PodGroup", frozen: "Gates", replicas: 1, podGroup: picky{state: engine.Ready()},
			engine: "Gates", want: condition{is: true, reason: "EngineFrozen", message: "Gates, chosen when the deployment got its pods; PodGroup, asked for by the annotation " +
				"trellis.dev/engine, takes its place once the deployment has no pods: scale all its services to 0 and back, or recreate it"},
		},
		"another one is asked for, and pods may be in the making": {
			annotation: "PodGroup", frozen: "Gates", pending: true, podGroup: picky{state: engine.Ready()},
			engine: "Gates", want: condition{is: true, reason: "EngineFrozen", message: "Gates, chosen when the deployment got its pods; PodGroup, asked for by the annotation " +
				"trellis.dev/engine, takes its place once the deployment has no pods: scale all its services to 0 and back, or recreate it"},
		},
		"another one is asked for, and there are no pods": {
			annotation: "PodGroup", frozen: "Gates", podGroup: picky{state: engine.Ready()},
			engine: "PodGroup", want: condition{is: true, reason: "EngineAvailable", message: "PodGroup, chosen by the annotation trellis.dev/engine"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := fine()
			if c.annotation != "" {
				o.dgd.Annotations = map[string]string{graph.AnnotationEngine: c.annotation}
			}
			sg := o.groups["work"]
			sg.Spec.Engine, sg.Status.Replicas = c.frozen, c.replicas
			if c.pending {
				sg.Status.ObservedGeneration--
			}
			c.podGroup.name = graph.EnginePodGroup
			r := &Reconciler{Engines: engine.New(engine.Options{}, gates.Placer{}, c.podGroup), Engine: c.preset}
			o.engine = r.engineOf(t.Context(), o)
			got := statusOf(o, resolved, nil, nil)
			if got.Engine != c.engine {
				t.Errorf("status.engine = %q, want %q", got.Engine, c.engine)
			}
			c.want.kind = nvidiav1beta1.ConditionEngineReady
			if diff := cmp.Diff(c.want, *engineCondition(o), cmp.AllowUnexported(condition{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
