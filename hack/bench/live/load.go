// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
)

// concurrent is the number of graphs of the load that exist at a time.
const concurrent = 10

// Work keeps the operator busy while do runs: at every interval it creates a graph of one packed gang, and deletes the oldest so that
// concurrent graphs exist. After do, all remaining gangs must become bound, each in one rack; then they are deleted.
func (c *Cluster) Work(ctx context.Context, every time.Duration, pods int, do func(context.Context) error) (gangs int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	working, stop := context.WithCancel(ctx)
	created := make(chan int, 1)
	go func() {
		n, err := c.createSteadily(working, every, pods)
		if err != nil {
			cancel(err)
		}
		created <- n
	}()
	err = do(ctx)
	stop()
	gangs = <-created
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		return gangs, err
	}
	return gangs, c.judgeLeft(ctx, min(gangs, concurrent), pods)
}

// createSteadily creates graphs until the context ends, and returns their number.
func (c *Cluster) createSteadily(ctx context.Context, every time.Duration, pods int) (int, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	name := func(i int) string { return fmt.Sprintf("load-%05d", i) }
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return i, nil
		case <-tick.C:
		}
		whole := context.WithoutCancel(ctx) // a started create finishes, so that it is counted
		if err := c.create(whole, named(packed(c.shape, 1, pods)[0], name(i))); err != nil {
			return i, err
		}
		if i < concurrent {
			continue
		}
		oldest := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i - concurrent)}}
		if err := c.c.Delete(whole, oldest, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return i, err
		}
	}
}

// judgeLeft waits until the remaining gangs are bound, checks their hosts, and clears the cluster.
func (c *Cluster) judgeLeft(ctx context.Context, gangs, pods int) error {
	p, err := c.follow(ctx)
	if err != nil {
		return err
	}
	defer p.events.Stop()
	bound := func() bool { return len(p.byName) == gangs*pods && p.bound() == gangs*pods }
	if err := p.until(ctx, "the gangs left are bound", bound); err != nil {
		return err
	}
	byGang := map[string][]string{}
	for _, pod := range p.byName {
		name := Packed.gangOf(pod)
		byGang[name] = append(byGang[name], pod.Spec.NodeName)
	}
	answer := hall.Answer{}
	for _, hosts := range byGang {
		answer = append(answer, hosts)
	}
	ask := hall.Ask{Name: "load", Whole: hall.Cluster, Each: hall.Rack, Gangs: gangs, Pods: pods, GPUs: hall.GPUs}
	return errors.Join(hall.NewLedger(c.shape, nil).Judge(ask, answer), c.clear(ctx, p))
}
