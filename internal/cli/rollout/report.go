// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// States of an update.
const (
	Complete   = "complete"
	Updating   = "updating"
	Paused     = "paused"
	RolledBack = "rolled back"
)

// Status is the progress of a graph's update.
type Status struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is Complete, Updating, Paused or RolledBack.
	State string `json:"state"`
	// Generation that was last rolled out; empty if no generation was rolled out.
	Generation string `json:"generation,omitempty"`
	// Target is the generation to which the workers are changing, if it differs from Generation.
	Target string `json:"target,omitempty"`
	// Aborted is the generation whose update was aborted; set only in the state RolledBack.
	Aborted string `json:"aborted,omitempty"`
	// Reason and Message of the condition RolledOut, while it is False.
	Reason     string      `json:"reason,omitempty"`
	Message    string      `json:"message,omitempty"`
	Components []Component `json:"components"`
}

// Component is one worker component, with the generations of its replicas. The last entry of Generations is the target generation.
type Component struct {
	Name        string       `json:"name"`
	Replicas    int32        `json:"replicas"`
	Generations []Generation `json:"generations"`
}

// Generation counts the replicas of one generation.
type Generation struct {
	// Name of the generation; empty for workers without generations.
	Name string `json:"name"`
	// Replicas counts the existing replicas, complete or not. Available counts the replicas whose pods are all Ready.
	Replicas  int32 `json:"replicas"`
	Available int32 `json:"available"`
}

// Build makes the report. Components are sorted by name.
func Build(o Observed) Status {
	r := Status{
		Namespace: o.Graph.Namespace, Name: o.Graph.Name, State: Complete, Components: []Component{},
		Generation: o.Graph.Annotations[render.AnnotationWorkerHash],
	}
	for i := range o.Groups {
		sg := &o.Groups[i]
		if target := render.GenerationOf(sg); target != "" && target != r.Generation {
			r.Target = target
		}
		if render.GenerationOf(sg) != "" || len(sg.Status.Generations) > 0 {
			r.Components = append(r.Components, componentOf(sg))
		}
	}
	slices.SortFunc(r.Components, func(a, b Component) int { return cmp.Compare(a.Name, b.Name) })
	r.judge(o.Graph)
	return r
}

func componentOf(sg *trellisv1alpha1.ScalingGroup) Component {
	c := Component{Name: sg.Spec.Component, Replicas: sg.Spec.Replicas}
	for _, g := range sg.Status.Generations {
		c.Generations = append(c.Generations, Generation{g.Name, g.Replicas, g.AvailableReplicas})
	}
	current := Generation{render.GenerationOf(sg), sg.Status.Replicas - sg.Status.OutdatedReplicas, sg.Status.UpdatedAvailableReplicas}
	c.Generations = append(c.Generations, current)
	return c
}

// judge sets the state of the update.
func (r *Status) judge(dgd *nvidiav1beta1.DynamoGraphDeployment) {
	c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1beta1.ConditionRolledOut)
	control, _ := rollout.ControlOf(dgd)
	if c != nil && c.Status == metav1.ConditionFalse {
		r.State, r.Reason, r.Message = Updating, c.Reason, c.Message
	}
	switch {
	case r.Reason == nvidiav1beta1.ReasonRolledBack:
		r.State, r.Aborted = RolledBack, control.Aborted
	case r.Reason == nvidiav1beta1.ReasonRolloutPaused:
		r.State = Paused
	case dgd.Status.ObservedGeneration != dgd.Generation && r.State == Complete:
		r.State = Updating
	}
}

// Refs returns the deployment.
func (r Status) Refs() []cli.Ref { return refs(r.Name) }

func refs(name string) []cli.Ref {
	return []cli.Ref{{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: name}}
}

// Text renders the report as a table.
func (r Status) Text(p text.Page) string {
	rows := [][]string{{"COMPONENT", "GENERATION", "REPLICAS", "AVAILABLE"}}
	for _, c := range r.Components {
		name := c.Name
		for _, g := range c.Generations {
			rows = append(rows, []string{name, cmp.Or(g.Name, "none"), fmt.Sprint(g.Replicas), fmt.Sprint(g.Available)})
			name = ""
		}
	}
	var b strings.Builder
	b.WriteString(p.Wrap(r.headline(), "  ") + "\n")
	if len(r.Components) > 0 {
		b.WriteString("\n" + p.Table(rows, 2, 3))
	}
	if r.Message != "" {
		b.WriteString("\n" + p.Wrap(r.Reason+": "+r.Message, "  ") + "\n")
	}
	return b.String()
}

func (r Status) headline() string {
	of := r.Name + " in " + r.Namespace
	between := ""
	if r.Target != "" && r.Generation != "" {
		between = fmt.Sprintf(" from generation %s to %s", r.Generation, r.Target)
	}
	switch r.State {
	case Updating:
		return of + " is being updated" + between
	case Paused:
		return of + " is paused in the update" + between
	case RolledBack:
		return of + " is rolled back: generation " + r.Aborted + " was aborted"
	case Complete:
		if r.Generation != "" {
			return of + " is of generation " + r.Generation
		}
	}
	return of + " has no update in progress"
}
