// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/drain"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// vacate cordons the nodes of the domains to free, requests all moves of the report, waits until the replicas have left the nodes, and
// checks that no GPU is in use there. The requests are like the requests that the operator's webhook writes during kubectl drain: a request
// ends when the node of its pod is uncordoned, or when it is not repeated in time (package leaving).
func (o *options) vacate(ctx context.Context, c client.Client, world *whatif.World, report *Report) error {
	if o.operator != nil && o.operator.Silent {
		fmt.Fprintln(o.ErrOut, "nothing is changed: no replica moves while the operator is not running")
		return live.ExitSilent
	}
	if err := report.movable(ctx, c, world); err != nil {
		return err
	}
	progress := o.Out
	if o.ForPrograms() {
		progress = o.ErrOut
	}
	cordoned, failed := drain.Cordon(ctx, c, report.nodes, progress)
	if failed == nil {
		failed = o.unplanned(ctx, report)
	}
	requests := requests{Client: c}
	if failed == nil {
		failed = o.moveAll(ctx, report, &requests)
	}
	// Withdraw the requests also after an interruption: without a request, no further replica moves.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain.EndWithin)
	defer cancel()
	withdrawn := requests.withdraw(ending)
	if failed == nil {
		failed = o.inUse(ctx, report)
	}
	if failed == nil && withdrawn == nil {
		fmt.Fprint(o.ErrOut, report.vacated()+drain.StayCordoned(cordoned))
		return nil
	}
	return drain.Ended(ctx, o.ErrOut, cordoned, failed, withdrawn)
}

// closed is the taint of cordoned nodes.
var closed = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// movable returns an error if the user may not request the moves, or if cordoned nodes would take the pods of a replica again. It changes
// nothing.
func (r *Report) movable(ctx context.Context, c client.Client, world *whatif.World) error {
	tried := map[string]bool{}
	for i := range r.Moves {
		m := &r.Moves[i]
		for _, pod := range podsOf(world.Groups, world.Pods, m) {
			if corev1helpers.TolerationsTolerateTaint(klog.Logger{}, pod.Spec.Tolerations, &closed, false) {
				return fmt.Errorf("pods of %s tolerate the taint %s, so cordoned nodes take them again: nothing is changed; "+
					"kubectl trellis drain keeps them off the nodes", m.who(), closed.Key)
			}
			if tried[pod.Namespace] {
				continue
			}
			tried[pod.Namespace] = true
			if err := annotate(ctx, c, pod, nil, client.DryRunAll); apierrors.IsForbidden(err) {
				return cli.Explain(err, "nothing is changed: requesting the moves in namespace "+pod.Namespace)
			}
		}
	}
	return nil
}

// unplanned returns an error if pods use GPUs on the nodes that belong to none of the replicas that move.
func (o *options) unplanned(ctx context.Context, report *Report) error {
	world, err := o.reread(ctx)
	if err != nil {
		return err
	}
	planned := map[types.UID]bool{}
	for i := range report.Moves {
		for _, pod := range podsOf(world.Groups, world.Pods, &report.Moves[i]) {
			planned[pod.UID] = true
		}
	}
	others := slices.DeleteFunc(whatif.NewPlanner(world).OnGPUs(report.nodes), func(pod *corev1.Pod) bool { return planned[pod.UID] })
	if len(others) > 0 {
		return fmt.Errorf("the cluster has changed since the plan, and nothing has moved: %s; try again", using(others))
	}
	return nil
}

// inUse returns an error if pods use GPUs on the nodes.
func (o *options) inUse(ctx context.Context, report *Report) error {
	world, err := o.reread(ctx)
	if err != nil {
		return err
	}
	if pods := whatif.NewPlanner(world).OnGPUs(report.nodes); len(pods) > 0 {
		return errors.New(using(pods))
	}
	return nil
}

// using describes the pods that use GPUs.
func using(pods []*corev1.Pod) string {
	list := make([]string, 0, len(pods))
	for _, pod := range pods {
		list = append(list, fmt.Sprintf("pod %s/%s uses GPUs of node %s", pod.Namespace, pod.Name, pod.Spec.NodeName))
	}
	return limit.Join(list, len(list), maxHosts, ", ")
}

// moveAll requests the moves, and shows the replicas until they have left the nodes.
func (o *options) moveAll(ctx context.Context, report *Report, requests *requests) error {
	waiting := drain.Waiting{Output: &o.Output, Every: o.every, Show: func(left cli.Report) error {
		out := o.Out
		if o.ForPrograms() {
			out = o.ErrOut
		}
		_, err := fmt.Fprint(out, text.Visible(left.Text(o.Page())))
		return err
	}}
	return waiting.Until(ctx, func() (cli.Report, int, error) {
		observed, err := drain.Observe(ctx, requests, report.nodes)
		if err == nil {
			err = observed.Cordoned()
		}
		left := report.left(&observed)
		if err == nil {
			err = requests.repeat(ctx, left.pods, cli.Now(requests))
		}
		return left, left.Moving(), err
	})
}

// left lists the replicas of the moves that still have pods on the nodes of the domains to free.
type left struct {
	*drain.Report
	// pods are the pods of these replicas on the nodes.
	pods []*corev1.Pod
}

// left returns the replicas of the report's moves that still have pods on the nodes of the domains to free.
func (r *Report) left(observed *drain.Observed) left {
	l := left{Report: drain.Build(*observed)}
	l.Replicas = slices.DeleteFunc(l.Replicas, func(one drain.Replica) bool {
		return !slices.ContainsFunc(r.Moves, func(m Move) bool {
			return m.Namespace == one.Namespace && m.Name == one.Deployment && m.Component == one.Component && m.Replica == int(one.Replica)
		})
	})
	groups, all := pointers[trellisv1alpha1.ScalingGroup](observed.Groups), pointers[corev1.Pod](observed.Pods)
	for _, one := range l.Replicas {
		of := Move{Namespace: one.Namespace, Name: one.Deployment, Component: one.Component, Replica: int(one.Replica)}
		for _, pod := range podsOf(groups, all, &of) {
			if slices.Contains(r.nodes, pod.Spec.NodeName) {
				l.pods = append(l.pods, pod)
			}
		}
	}
	return l
}

func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// Text implements cli.Report.
func (l left) Text(p text.Page) string {
	if len(l.Replicas) == 0 {
		return ""
	}
	return l.Report.Text(p)
}

// nodesIn returns the nodes of a topology's domains, in natural order of their names.
func nodesIn(world *whatif.World, levels topology.Levels, selector map[string]string, level int, domains []string) (names []string) {
	selected := labels.SelectorFromSet(selector)
	for _, node := range world.Nodes {
		if selected.Matches(labels.Set(node.Labels)) && slices.Contains(domains, levels.PathOf(node.Labels).Truncate(level).String()) {
			names = append(names, node.Name)
		}
	}
	slices.SortFunc(names, cli.Natural)
	return names
}

// vacated describes the result of the moves.
func (r *Report) vacated() string {
	free := slices.Concat(r.Domains, r.Already)
	slices.SortFunc(free, cli.Natural)
	return "No GPU is in use in " + strings.Join(free, ", ") + ". "
}
