// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/sandbox"
)

const (
	standbyName = "standby"
	heirName    = "heir"
	// asksPerSecond is the rate of requests while the leader is lost.
	asksPerSecond = 8
)

var (
	lease = client.ObjectKey{Namespace: "trellis-system", Name: "trellis-manager.trellis.dev"}
	elect = []string{"--leader-elect=true"}
)

// Pair is a cluster with two replicas of the operator, full except for one rack.
type Pair struct {
	cluster *Cluster
	service *service
	asks    *Requests
	leader  string
	other   string
	size    int
	pods    *pods
}

// Lost is the result of losing one leader.
type Lost struct {
	// Took is the time from the end of the lost leader's lease to the standby's first release; Lease is the time from the kill to the end of
	// the lease.
	Took, Lease time.Duration
	// Asked is the number of reads and dry-run creates from the kill to the release. AtKill of them failed before the lost replica had left
	// the webhooks' Service, Failed of them later. FirstError is the error of the first one that failed.
	Asked, AtKill, Failed int
	FirstError            error
}

// Pair starts a second operator and fills the cluster: a gang in every rack except the first, with that number of pods in total.
func (c *Cluster) Pair(ctx context.Context, pods int) (*Pair, error) {
	p := &Pair{cluster: c, leader: sandbox.DefaultManager, other: standbyName, size: c.shape.HostsPerRack}
	if err := c.box.StopManager(ctx, p.leader); err != nil {
		return nil, err
	}
	before, err := c.holder(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.box.StartManager(ctx, sandbox.ManagerOptions{Name: p.leader, Args: elect}); err != nil {
		return nil, err
	}
	if err := c.untilLed(ctx, before); err != nil {
		return nil, err
	}
	if err := c.box.StartManager(ctx, sandbox.ManagerOptions{Name: p.other, Args: elect}); err != nil {
		return nil, err
	}
	if p.service, err = c.serve(ctx, p.leader, p.other); err != nil {
		return nil, err
	}
	if p.asks, err = c.Requests(ctx); err != nil {
		return nil, err
	}
	if p.pods, err = c.follow(ctx); err != nil {
		return nil, err
	}
	return p, p.fill(ctx, pods)
}

// Close ends the watch.
func (p *Pair) Close() { p.pods.events.Stop() }

// fill occupies the first rack with pods past the operator, and the others with gangs.
func (p *Pair) fill(ctx context.Context, pods int) error {
	c, gangs := p.cluster, p.cluster.shape.Racks()-1
	if _, err := c.occupy(ctx, "blocker", hall.GPUs, hostsOf(c.shape, 0)...); err != nil {
		return err
	}
	hosts := hostsBut(c.shape, 0)
	var small []string
	for i := range max(0, pods-c.shape.Hosts) {
		small = append(small, hosts[i%len(hosts)])
	}
	if _, err := c.occupy(ctx, "small", 0, small...); err != nil {
		return err
	}
	if err := c.create(ctx, packed(c.shape, gangs, p.size)[0]); err != nil {
		return err
	}
	all := c.shape.Hosts + len(small)
	return p.pods.until(ctx, "all pods are bound", func() bool { return len(p.pods.byName) == all && p.pods.bound() == all })
}

// Lose kills the leader while a gang waits, frees capacity for the gang, and waits until the standby has released it. Then it restores the
// state before, with the killed replica as the standby.
func (p *Pair) Lose(ctx context.Context) (Lost, error) {
	c := p.cluster
	if err := c.create(ctx, named(packed(c.shape, 1, p.size)[0], heirName)); err != nil {
		return Lost{}, err
	}
	if err := p.pods.until(ctx, "the heir's pods exist", func() bool { return len(p.pods.of(heirName)) == p.size }); err != nil {
		return Lost{}, err
	}
	if err := c.untilWaiting(ctx, p.leader, 1); err != nil {
		return Lost{}, err
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	answered := make(chan []Asked, 1)
	go func() {
		answered <- Ask(asking, asksPerSecond, p.asks.GetAlpha, p.asks.CreateAlpha, p.asks.GetBeta, p.asks.CreateBeta)
	}()
	killed := time.Now()
	if err := c.box.KillManager(ctx, p.leader); err != nil {
		return Lost{}, err
	}
	ends, err := c.leaseEnd(ctx)
	if err != nil {
		return Lost{}, err
	}
	if err := c.c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{gangLabelKey: "blocker"}); err != nil {
		return Lost{}, err
	}
	var opened time.Time
	err = p.pods.until(ctx, "the standby releases a gang", func() bool {
		opened = time.Now()
		return anyOpen(p.pods.of(heirName))
	})
	stop()
	if err != nil {
		return Lost{}, err
	}
	if opened.Before(ends) {
		return Lost{}, fmt.Errorf("the standby released a gang %s before the lease of the lost leader ended", ends.Sub(opened))
	}
	left := p.service.leftAt(p.leader)
	if left.Before(killed) {
		return Lost{}, errors.New("the lost leader is still in the webhooks' Service")
	}
	lost := Lost{Took: opened.Sub(ends), Lease: ends.Sub(killed)}
	lost.count(<-answered, left)
	return lost, p.restore(ctx)
}

// count counts the requests that failed before and after the lost replica left the Service.
func (l *Lost) count(asked []Asked, left time.Time) {
	l.Asked = len(asked)
	slices.SortFunc(asked, func(a, b Asked) int { return a.Start.Compare(b.Start) })
	for _, one := range asked {
		switch {
		case one.Err == nil:
			continue
		case one.Start.Before(left):
			l.AtKill++
		default:
			l.Failed++
		}
		if l.FirstError == nil {
			l.FirstError = one.Err
		}
	}
}

// restore checks the heir's hosts, deletes it, occupies the first rack again and starts the killed replica as the standby.
func (p *Pair) restore(ctx context.Context) error {
	c := p.cluster
	beside, heirs := []*corev1.Pod{}, p.pods.of(heirName)
	for name, pod := range p.pods.byName {
		if heirs[name] == nil {
			beside = append(beside, pod)
		}
	}
	if err := c.judgeGang(ctx, p.pods, heirName, p.size, beside); err != nil {
		return err
	}
	heir := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: heirName}}
	if err := c.c.Delete(ctx, heir, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	if err := p.pods.until(ctx, "the heir is gone", func() bool { return len(p.pods.of(heirName)) == 0 }); err != nil {
		return err
	}
	if _, err := c.occupy(ctx, "blocker", hall.GPUs, hostsOf(c.shape, 0)...); err != nil {
		return err
	}
	p.leader, p.other = p.other, p.leader
	return errors.Join(c.box.StartManager(ctx, sandbox.ManagerOptions{Name: p.other, Args: elect}), untilQuiet(ctx))
}

// holder returns the holder of the lease; "" for none.
func (c *Cluster) holder(ctx context.Context) (string, error) {
	l := &coordinationv1.Lease{}
	err := c.c.Get(ctx, lease, l)
	if client.IgnoreNotFound(err) != nil || l.Spec.HolderIdentity == nil {
		return "", client.IgnoreNotFound(err)
	}
	return *l.Spec.HolderIdentity, nil
}

// untilLed waits until the lease has another holder than before.
func (c *Cluster) untilLed(ctx context.Context, before string) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		now, err := c.holder(ctx)
		return now != "" && now != before, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the operator leads: %w", err)
	}
	return nil
}

// leaseEnd returns when the lease ends unless it is renewed.
func (c *Cluster) leaseEnd(ctx context.Context) (time.Time, error) {
	l := &coordinationv1.Lease{}
	if err := c.c.Get(ctx, lease, l); err != nil {
		return time.Time{}, err
	}
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return time.Time{}, errors.New("the operator's lease has no time")
	}
	return l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second), nil
}
