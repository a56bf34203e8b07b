// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/drain"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// endWithin bounds the time for the last writes of an interrupted command.
const endWithin = 10 * time.Second

// vacate cordons the nodes of the domains to free, requests all moves of the report, and waits until the replicas have left the nodes. The
// requests are like the requests that the operator's webhook writes during kubectl drain: a request ends when the node of its pod is
// uncordoned, or when it is not repeated for [leaving.EvictionCounts].
func (o *options) vacate(ctx context.Context, c client.Client, report *Report) error {
	failed := drain.Cordon(ctx, c, report.nodes, o.Out)
	if failed == nil {
		failed = drain.Wait(ctx, &o.Output, o.every, func() (cli.Report, int, error) {
			left, err := report.left(ctx, c)
			if err == nil {
				err = left.request(ctx, c, cli.Now(c))
			}
			return left, left.Moving(), err
		})
	}
	if failed == nil {
		fmt.Fprint(o.ErrOut, report.vacated())
		return nil
	}
	// Remove the requests also after an interruption: without a request, no further replica moves.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	left, err := report.left(ending, c)
	if err == nil {
		err = left.withdraw(ending, c)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(o.ErrOut, "interrupted: the nodes stay cordoned, and replicas that have not moved stay; kubectl uncordon opens the nodes")
		return errors.Join(cli.Exit(1), err)
	}
	return errors.Join(failed, err)
}

// left lists the replicas of the moves that still have pods on the nodes of the domains to free.
type left struct {
	*drain.Report
	// pods are all pods of these replicas.
	pods []*corev1.Pod
}

// left reads the cluster, and returns the replicas of the report's moves that still have pods on the nodes of the domains to free.
func (r *Report) left(ctx context.Context, c client.Client) (left, error) {
	observed, err := drain.Observe(ctx, c, r.nodes)
	l := left{Report: drain.Build(observed)}
	l.Replicas = slices.DeleteFunc(l.Replicas, func(one drain.Replica) bool {
		return !slices.ContainsFunc(r.Moves, func(m Move) bool {
			return m.Namespace == one.Namespace && m.Name == one.Deployment && m.Component == one.Component && m.Replica == int(one.Replica)
		})
	})
	groups, all := pointers[trellisv1alpha1.ScalingGroup](observed.Groups), pointers[corev1.Pod](observed.Pods)
	for _, one := range l.Replicas {
		of := Move{Namespace: one.Namespace, Name: one.Deployment, Component: one.Component, Replica: int(one.Replica)}
		l.pods = append(l.pods, podsOf(groups, all, &of)...)
	}
	return l, err
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

// request requests the moves of the replicas, and repeats requests before they end.
func (l left) request(ctx context.Context, c client.Client, now time.Time) error {
	request := leaving.Eviction{At: now, WithNode: true}
	return l.annotate(ctx, c, request.Replaces, request.String())
}

// withdraw removes the requests.
func (l left) withdraw(ctx context.Context, c client.Client) error {
	return l.annotate(ctx, c, func(pod *corev1.Pod) bool {
		request, requested := leaving.EvictionOf(pod)
		return requested && request.WithNode
	}, nil)
}

// annotate writes the value of the request into the pods that match. It ignores pods that no longer exist.
func (l left) annotate(ctx context.Context, c client.Client, matches func(*corev1.Pod) bool, value any) error {
	for _, pod := range l.pods {
		if pod.DeletionTimestamp != nil || !matches(pod) {
			continue
		}
		err := annotate(ctx, c, pod, value)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return cli.Explain(err, fmt.Sprintf("changing pod %s/%s", pod.Namespace, pod.Name))
		}
	}
	return nil
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
	return fmt.Sprintf("%s moved. The nodes of %s stay cordoned. To open them:\n  kubectl uncordon %s\n",
		text.Count(len(r.Moves), "replica"), strings.Join(free, ", "), strings.Join(r.nodes, " "))
}
