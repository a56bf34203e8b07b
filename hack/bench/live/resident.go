// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// fillPatience is the maximum time until all graphs together are Ready.
const fillPatience = time.Hour

// Resident is the peak resident memory of operator processes, in megabytes.
type Resident struct {
	// Working is the memory of the process that placed all pods; Restarted is that of its successor, which found all pods placed.
	Working, Restarted float64
}

// Resident creates all graphs at once, waits until all of them are Ready and the machine is quiet, restarts the operator and waits until
// the machine is quiet again. The cluster stays full. It returns an error if the restart changes a pod.
func (c *Cluster) Resident(ctx context.Context, g Graphs) (r Resident, err error) {
	p, err := c.followGraphs(ctx)
	if err != nil {
		return r, err
	}
	err = c.untilReady(ctx, g, p, fillPatience)
	p.stop()
	if err != nil {
		return r, err
	}
	if r.Working, err = c.peakResident(ctx); err != nil {
		return r, err
	}
	before, err := c.nodesOfPods(ctx)
	if err != nil {
		return r, err
	}
	if err := errors.Join(c.box.StopManager(ctx, sandbox.DefaultManager), c.box.StartManager(ctx, sandbox.ManagerOptions{})); err != nil {
		return r, err
	}
	if r.Restarted, err = c.peakResident(ctx); err != nil {
		return r, err
	}
	after, err := c.nodesOfPods(ctx)
	if err == nil && !maps.Equal(before, after) {
		err = fmt.Errorf("the restart of the operator changed pods: there were %d, there are %d", len(before), len(after))
	}
	return r, err
}

// nodesOfPods returns the nodes of all pods, by their UIDs.
func (c *Cluster) nodesOfPods(ctx context.Context) (map[types.UID]string, error) {
	list := &corev1.PodList{}
	if err := c.c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	nodes := map[types.UID]string{}
	for i := range list.Items {
		nodes[list.Items[i].UID] = list.Items[i].Spec.NodeName
	}
	return nodes, nil
}

// peakResident waits until the machine is quiet and returns the operator's peak resident memory, in megabytes.
func (c *Cluster) peakResident(ctx context.Context) (float64, error) {
	if err := c.untilQuiet(ctx); err != nil {
		return 0, err
	}
	operator, err := processWith("--health-probe-bind-address=" + c.box.ManagerProbes(sandbox.DefaultManager))
	if err != nil {
		return 0, err
	}
	status, err := operator.NewStatus()
	if err != nil {
		return 0, err
	}
	return float64(status.VmHWM) / 1e6, nil
}

// processWith returns the process of this machine that was started with an argument.
func processWith(argument string) (procfs.Proc, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return procfs.Proc{}, err
	}
	for _, one := range all {
		if line, err := one.CmdLine(); err == nil && slices.Contains(line, argument) {
			return one, nil
		}
	}
	return procfs.Proc{}, fmt.Errorf("no process of this machine has the argument %s", argument)
}
