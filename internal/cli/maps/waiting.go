// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// maxBlockers bounds the hosts that are highlighted for one reason.
const maxBlockers = 64

// explain adds the reasons why graphs wait, from a new plan on the current cluster. Without a planner, or if the plan shows no reason, the
// reason comes from the operator's report.
func (m *Map) explain(planner *whatif.Planner, world *whatif.World) {
	for i := range m.Graphs {
		g := &m.Graphs[i]
		if g.Waiting == nil {
			continue
		}
		dgd := world.Graph(types.NamespacedName{Namespace: g.Namespace, Name: g.Name})
		reasons, same := again(planner, dgd, g.Waiting.Message)
		if len(reasons) == 0 {
			reasons, same = []explain.Cause{{Who: who(g.Waiting.Pods), Reason: g.Waiting.Reason, Message: g.Waiting.Message}}, true
		}
		for j, reason := range reasons {
			w := GraphCause{Namespace: g.Namespace, Graph: g.Name, Tree: g.Tree, Since: since(dgd), Cause: reason}
			if j == 0 && !same {
				w.Operator = g.Waiting.Message
			}
			m.Waiting = append(m.Waiting, w)
		}
	}
}

// again plans a deployment and drops the plan. It reports whether the operator's message agrees with the plan. It returns no reasons if
// there is capacity now, or if the deployment cannot be planned.
func again(planner *whatif.Planner, dgd *nvidiav1beta1.DynamoGraphDeployment, operator string) (reasons []explain.Cause, same bool) {
	if planner == nil || dgd == nil || len(planner.Check(dgd)) > 0 {
		return nil, false
	}
	planner.Begin()
	defer planner.Rollback()
	plan, err := planner.Plan(dgd)
	if err != nil {
		return nil, false
	}
	return explain.CausesOf(planner, plan, maxBlockers), explain.SameWords(plan, operator)
}

// who returns the replicas to which pods belong. The pods must be sorted.
func who(pods []tree.Pod) []explain.Gangs {
	list := []explain.Gangs{}
	for _, p := range pods {
		last := len(list) - 1
		if last < 0 || list[last].Component != p.Component {
			list = append(list, explain.Gangs{Component: p.Component})
			last++
		}
		g := &list[last]
		if n := len(g.Replicas); n == 0 || g.Replicas[n-1] != int(p.Replica) {
			g.Replicas = append(g.Replicas, int(p.Replica))
		}
	}
	return list
}

func since(dgd *nvidiav1beta1.DynamoGraphDeployment) *time.Time {
	if dgd == nil {
		return nil
	}
	c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1beta1.ConditionPlaced)
	if c == nil || c.Status == "True" || c.LastTransitionTime.IsZero() {
		return nil
	}
	return &c.LastTransitionTime.Time
}
