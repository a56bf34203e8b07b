// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/render"
)

const (
	// LookEvery is the interval at which a command reads the replicas while it waits.
	LookEvery = 2 * time.Second
	// EndWithin bounds the time for the last writes of a command that was interrupted or failed.
	EndWithin = 10 * time.Second
	// maxFailures is the number of failed reads in a row after which [Wait] ends.
	maxFailures = 30
)

// Observe lists the pods of replicas in all namespaces and their scaling groups, and reads the nodes.
func Observe(ctx context.Context, c client.Client, nodes []string) (Observed, error) {
	pods, groups := &corev1.PodList{}, &trellisv1alpha1.ScalingGroupList{}
	if err := c.List(ctx, pods, client.HasLabels{render.LabelScalingGroup}); err != nil {
		return Observed{}, cli.Explain(err, "listing the pods of inference graphs")
	}
	if err := c.List(ctx, groups); err != nil {
		return Observed{}, cli.Explain(err, "listing the scaling groups")
	}
	out := Observed{Nodes: nodes, Pods: pods.Items, Groups: groups.Items}
	for _, name := range nodes {
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, node); client.IgnoreNotFound(err) != nil {
			return Observed{}, cli.Explain(err, "reading node "+name)
		} else if err == nil && !node.Spec.Unschedulable {
			out.Schedulable = append(out.Schedulable, name)
		}
	}
	return out, nil
}

// Cordon makes the nodes unschedulable, and writes the name of each node to out. It returns the nodes that were schedulable before. It
// ignores nodes that no longer exist.
func Cordon(ctx context.Context, c client.Client, nodes []string, out io.Writer) (cordoned []string, err error) {
	for _, name := range nodes {
		node := &corev1.Node{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, node)
		result := "already cordoned"
		if err == nil && !node.Spec.Unschedulable {
			err = patchNode(ctx, c, name, map[string]any{"spec": map[string]any{"unschedulable": true}})
			result = "cordoned"
		}
		switch {
		case apierrors.IsNotFound(err):
			result = "no longer exists"
		case err != nil:
			return cordoned, cli.Explain(err, "cordoning node "+name)
		case result == "cordoned":
			cordoned = append(cordoned, name)
		}
		if _, err := fmt.Fprintf(out, "node/%s %s\n", name, result); err != nil {
			return cordoned, err
		}
	}
	return cordoned, nil
}

// StayCordoned is the last sentence of a command that has cordoned nodes.
func StayCordoned(cordoned []string) string {
	if len(cordoned) == 0 {
		return "The command has cordoned no node.\n"
	}
	return "The nodes stay cordoned. To open them:\n  kubectl uncordon " + strings.Join(cordoned, " ") + "\n"
}

// Ended writes to errOut what a command leaves behind that was interrupted (ctx is done) or that failed, and returns the command's error.
// cordoned are the nodes that the command has cordoned. undone is the error of the attempt to end the moves; nil if no further replica
// moves.
func Ended(ctx context.Context, errOut io.Writer, cordoned []string, failed, undone error) error {
	if undone != nil {
		fmt.Fprintf(errOut, "the moves were not ended, and further replicas may move: %v\n", undone)
	}
	if ctx.Err() != nil {
		fmt.Fprint(errOut, "interrupted: replicas that have not moved stay. "+StayCordoned(cordoned))
		return cli.Exit(1)
	}
	fmt.Fprint(errOut, StayCordoned(cordoned))
	return failed
}

func patchNode(ctx context.Context, c client.Client, name string, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return c.Patch(ctx, node, client.RawPatch(types.MergePatchType, raw))
}

// errSchedulable ends a wait for replicas: without the cordon, the operator does not move the remaining replicas.
var errSchedulable = errors.New("no longer cordoned")

// Cordoned returns an error if any of the nodes is schedulable.
func (o *Observed) Cordoned() error {
	if len(o.Schedulable) == 0 {
		return nil
	}
	return fmt.Errorf("node %s is %w: the replicas that are left stay", strings.Join(o.Schedulable, ", "), errSchedulable)
}

// Waiting shows how replicas leave nodes.
type Waiting struct {
	*cli.Output
	// Every is the interval between two reads.
	Every time.Duration
	// Show writes a report.
	Show func(cli.Report) error
}

// Until calls look once per interval, and shows the returned report whenever its text has changed. It ends when look returns 0 moving
// replicas. It tries again when a read fails, unless the user lacks a right or a node is no longer cordoned.
func (w *Waiting) Until(ctx context.Context, look func() (report cli.Report, moving int, err error)) error {
	shown, failures := "", 0
	for {
		report, moving, err := look()
		if err != nil {
			if failures++; failures == maxFailures || final(err) || ctx.Err() != nil {
				return err
			}
			if failures == 1 {
				fmt.Fprintf(w.ErrOut, "trying again: %v\n", err)
			}
		} else {
			failures = 0
			if now := report.Text(w.Page()); now != shown {
				shown = now
				if err := w.Show(report); err != nil {
					return err
				}
			}
			if moving == 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(w.Every):
		}
	}
}

// final reports whether a further read would fail in the same way.
func final(err error) bool {
	return errors.Is(err, errSchedulable) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}
