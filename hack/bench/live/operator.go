// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
)

const (
	plansMetric   = "trellis_plan_duration_seconds_count"
	waitingMetric = "trellis_graphs_waiting"
	// steadyFor is the time without plans before a measurement starts: longer than the 10 s after which the operator retries graphs that could
	// not use a changed node.
	steadyFor = 13 * time.Second
)

// metric returns a manager's metric: the sum of its series.
func (c *Cluster) metric(ctx context.Context, manager, name string) (float64, error) {
	if c.metrics == nil {
		reader, err := c.box.NewMetricsReader(ctx)
		if err != nil {
			return 0, err
		}
		c.metrics = reader
	}
	text, err := c.metrics.Read(ctx, c.box.ManagerMetrics(manager))
	if err != nil {
		return 0, err
	}
	if !strings.Contains(text, "\n"+name) {
		return 0, fmt.Errorf("%s has no metric %s", manager, name)
	}
	return sandbox.Series(text, name), nil
}

// untilWaiting waits until the manager counts the given number of waiting graphs.
func (c *Cluster) untilWaiting(ctx context.Context, manager string, graphs int) error {
	var waiting float64
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (_ bool, err error) {
		waiting, err = c.metric(ctx, manager, waitingMetric)
		return waiting == float64(graphs), err
	})
	if err != nil {
		return fmt.Errorf("waiting until %d graphs wait (%v do): %w", graphs, waiting, err)
	}
	return nil
}

// untilSteady waits until the operator has not planned for steadyFor, and returns the number of its plans.
func (c *Cluster) untilSteady(ctx context.Context) (float64, error) {
	last, since := -1.0, time.Now()
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		plans, err := c.metric(ctx, sandbox.DefaultManager, plansMetric)
		if plans != last {
			last, since = plans, time.Now()
		}
		return time.Since(since) > steadyFor, err
	})
	if err != nil {
		return 0, fmt.Errorf("waiting until the operator plans nothing: %w", err)
	}
	return last, nil
}

// occupy binds one pod with gpus GPUs to each host, past the kube-scheduler. The pods belong to one gang, so that they can be deleted
// together.
func (c *Cluster) occupy(ctx context.Context, gang string, gpus int, hosts ...string) ([]*corev1.Pod, error) {
	pods, objects := make([]*corev1.Pod, 0, len(hosts)), make([]client.Object, 0, len(hosts))
	for i, host := range hosts {
		p := barePod(fmt.Sprintf("%s-%05d", gang, i), gang, gpus)
		p.Spec.NodeName = host
		if gpus == 0 {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}
		pods, objects = append(pods, p), append(objects, p)
	}
	return pods, c.create(ctx, objects)
}

// hostsBut returns all hosts of the hall except those of one rack.
func hostsBut(shape hall.Shape, rack int) []string {
	var hosts []string
	for r := range shape.Racks() {
		if r != rack {
			hosts = append(hosts, hostsOf(shape, r)...)
		}
	}
	return hosts
}

// of returns the pods of a graph, by name.
func (p *pods) of(name string) map[string]*corev1.Pod {
	out, value := map[string]*corev1.Pod{}, render.LabelValue(name)
	for _, pod := range p.byName {
		if pod.Labels[render.LabelGraph] == value {
			out[pod.Name] = pod
		}
	}
	return out
}

// anyOpen reports whether a pod of a gang is no longer gated.
func anyOpen(gang map[string]*corev1.Pod) bool {
	for _, pod := range gang {
		if !render.GateClosed(pod) {
			return true
		}
	}
	return false
}

// released reports whether a gang has all its pods and none of them is gated.
func released(gang map[string]*corev1.Pod, pods int) bool {
	for _, pod := range gang {
		if render.GateClosed(pod) {
			return false
		}
	}
	return len(gang) == pods
}

// judgeGang waits until a graph's gang is bound and checks its hosts, together with other bound pods.
func (c *Cluster) judgeGang(ctx context.Context, p *pods, name string, size int, beside []*corev1.Pod) error {
	var hosts []string
	err := p.until(ctx, name+" is bound", func() bool {
		hosts = hosts[:0]
		for _, pod := range p.of(name) {
			if pod.Spec.NodeName != "" {
				hosts = append(hosts, pod.Spec.NodeName)
			}
		}
		return len(hosts) == size
	})
	if err != nil {
		return err
	}
	ask := hall.Ask{Name: name, Whole: hall.Cluster, Each: hall.Rack, Gangs: 1, Pods: size, GPUs: hall.GPUs}
	return hall.NewLedger(c.shape, beside).Judge(ask, hall.Answer{hosts})
}
