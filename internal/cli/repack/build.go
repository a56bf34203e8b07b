// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Ask is the goal of the moves: a place for a deployment, free domains, or a place for the first waiting deployment.
type Ask struct {
	// Namespace and For name the deployment.
	Namespace, For string
	// Topology and Level select the domains to free, and Domains is their number.
	Topology, Level string
	Domains         int
	MaxGPUs         int64
}

// Build plans on a world, finds moves, and makes the report.
func Build(world whatif.World, ask Ask) (Report, error) {
	planner := whatif.NewPlanner(world)
	limits := repack.Limits{MaxGPUs: ask.MaxGPUs, Now: world.Now, InOrder: ask.Level == ""}
	switch {
	case ask.Level != "":
		return free(&world, planner, ask, limits)
	case ask.For != "":
		name := types.NamespacedName{Namespace: ask.Namespace, Name: ask.For}
		dgd := world.Graph(name)
		if dgd == nil {
			return Report{}, notFound(&world, name)
		}
		if errs := planner.Check(dgd); len(errs) > 0 {
			return Report{}, fmt.Errorf("deployment %s is not valid: %w", name, errs.ToAggregate())
		}
		report, err := unblock(planner, dgd, limits)
		if err != nil {
			return Report{}, fmt.Errorf("deployment %s: %w", name, err)
		}
		return report, nil
	}
	return first(&world, planner, limits)
}

// free finds moves that free domains.
func free(world *whatif.World, planner *whatif.Planner, ask Ask, limits repack.Limits) (Report, error) {
	ct := world.DefaultTopology()
	if ask.Topology != "" {
		if ct = world.Topology(ask.Topology); ct == nil {
			return Report{}, fmt.Errorf("--topology %s: there is no ClusterTopology of that name", ask.Topology)
		}
	}
	if ct == nil && len(world.Topologies) == 1 {
		ct = world.Topologies[0]
	}
	if ct == nil {
		return Report{}, errors.New("there is no default topology: name one with --topology")
	}
	levels := gang.LevelsOfClusterTopology(ct)
	level := levels.Index(ask.Level)
	if level == topology.NoLevel {
		return Report{}, fmt.Errorf("--free %s: ClusterTopology %s has no such level; there are: %s", ask.Level, ct.Name, names(levels))
	}
	found := planner.Free(levels, ct.Spec.NodeSelector, level, ask.Domains, limits)
	report := Report{Level: ask.Level, Wanted: ask.Domains, Already: []string{}}
	for _, path := range found.Already {
		report.Already = append(report.Already, path.String())
	}
	report.add(&found.Result)
	report.nodes = nodesIn(world, levels, ct.Spec.NodeSelector, level, slices.Concat(report.Domains, report.Already))
	if len(found.Already) >= ask.Domains {
		report.Found = true
		report.Reason = fmt.Sprintf("%s free already: no moves are needed", isAre(len(found.Already), ask.Level))
	} else if !report.Found {
		report.Reason = "no moves free " + text.Count(ask.Domains, ask.Level) + ": " + because(&found.Result)
	}
	return report, nil
}

func isAre(n int, level string) string {
	if n == 1 {
		return "1 " + level + " is"
	}
	return text.Count(n, level) + " are"
}

func names(levels topology.Levels) string {
	list := make([]string, 0, len(levels))
	for _, l := range levels {
		list = append(list, l.Domain)
	}
	return strings.Join(list, ", ")
}

// unblock finds moves for the first waiting gang of a deployment.
func unblock(planner *whatif.Planner, dgd *nvidiav1beta1.DynamoGraphDeployment, limits repack.Limits) (Report, error) {
	planner.Begin()
	defer planner.Rollback()
	report := Report{Namespace: dgd.Namespace, Name: dgd.Name}
	plan, err := planner.Plan(dgd)
	if err != nil {
		return report, err
	}
	waiting := plan.Waiting()
	if len(waiting) == 0 {
		report.Found, report.Reason = true, "every replica has a place: no moves are needed"
		return report, nil
	}
	report.Waiting = len(waiting)
	found := planner.Moves(plan, limits)
	if found == nil {
		report.Reason = "no moves are looked for: " + why(waiting)
		return report, nil
	}
	report.Gang = found.Gang
	for _, w := range waiting {
		if w.Code == placement.CodeInsufficientCapacity {
			report.Message = w.Message
			break
		}
	}
	report.add(&found.Result)
	if !report.Found {
		report.Reason = "no moves free a place for " + found.Gang + ": " + because(&found.Result)
	}
	return report, nil
}

// why returns the reason of the first waiting replica.
func why(waiting []gang.Waiting) string { return waiting[0].Code + ": " + waiting[0].Message }

// because returns the reason why the search found no moves.
func because(r *repack.Result) string {
	switch {
	case r.OverLimit > 0:
		return fmt.Sprintf("at least %d GPUs would have to restart", r.OverLimit)
	case r.Considered == 0 && r.Rested > 0:
		return text.Count(r.Rested, "replica") + " that may move began within the time of --repack-rest"
	case r.Considered == 0:
		return `no replica that runs may move; the annotation trellis.dev/may-move: "true" on a deployment allows it`
	case r.Cut:
		return fmt.Sprintf("of %s that may move, not every set was tried", text.Count(r.Considered, "replica"))
	}
	return fmt.Sprintf("%s may move, and no set of them has places elsewhere and leaves enough free", text.Count(r.Considered, "replica"))
}

// maxTried is the maximum number of waiting deployments for which moves are searched.
const maxTried = 16

// first finds moves for the first waiting deployment that moves can help.
func first(world *whatif.World, planner *whatif.Planner, limits repack.Limits) (Report, error) {
	list := waiting(world, planner)
	if len(list) == 0 {
		return Report{Found: true, Reason: "no deployment waits for capacity: no moves are needed"}, nil
	}
	report := Report{Reason: "no moves free a place for any deployment that waits"}
	for i, dgd := range list {
		if i == maxTried {
			report.Reason = fmt.Sprintf("no moves free a place for the first %d deployments that wait", maxTried)
			break
		}
		one, err := unblock(planner, dgd, limits)
		if err == nil && one.Found {
			one.Others = report.Others
			return one, nil
		}
		report.Others = append(report.Others, Other{dgd.Namespace, dgd.Name, one.Reason})
	}
	return report, nil
}

// waiting returns the deployments that wait for capacity. Deployments of higher priority come first. Of equal priority, older deployments
// come first.
func waiting(world *whatif.World, planner *whatif.Planner) []*nvidiav1beta1.DynamoGraphDeployment {
	var list []*nvidiav1beta1.DynamoGraphDeployment
	priorities := map[*nvidiav1beta1.DynamoGraphDeployment]int32{}
	for _, dgd := range world.Graphs {
		if dgd.DeletionTimestamp != nil || len(planner.Check(dgd)) > 0 {
			continue
		}
		planner.Begin()
		plan, err := planner.Plan(dgd)
		planner.Rollback()
		short := func(w gang.Waiting) bool { return w.Code == placement.CodeInsufficientCapacity }
		if err == nil && slices.ContainsFunc(plan.Waiting(), short) {
			list, priorities[dgd] = append(list, dgd), plan.Priority()
		}
	}
	slices.SortFunc(list, func(a, b *nvidiav1beta1.DynamoGraphDeployment) int {
		return cmp.Or(-cmp.Compare(priorities[a], priorities[b]), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return list
}
