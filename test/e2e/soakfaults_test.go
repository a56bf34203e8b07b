// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
)

// chaos breaks processes and hardware of a world at random, one fault at a time of each.
type chaos struct {
	w     *world
	audit *auditor
	hosts []host
	// impaired hosts, by name, and what mends each.
	impaired map[string]impairment
	order    []string
	most     int
	// short is since when a quota of the namespace leaves little beyond what is used; zero: there is none.
	short time.Time
}

type impairment struct {
	since time.Time
	mend  func(context.Context) error
}

// quotaShort is how long a quota binds at least, while faults are on.
const quotaShort = 20 * time.Second

// hostOutage is how long a host is impaired at most, while faults are on.
const hostOutage = 90 * time.Second

// processes are ended in an order of which each part is shuffled: the operator as often as all of the control plane.
func (c *chaos) processes(r *rand.Rand) []string {
	all := []string{sandbox.DefaultManager, "kube-scheduler", sandbox.DefaultManager, "kube-controller-manager", sandbox.DefaultManager, "kube-apiserver"}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// breakProcess kills one process, leaves it away for a while of at most outage, and starts it again.
func (c *chaos) breakProcess(ctx context.Context, r *rand.Rand, name string, outage time.Duration) error {
	always := context.WithoutCancel(ctx) // when the faults end, the process has to be there
	kill := func() error { return c.w.cluster.StopComponent(always, name) }
	start := func() error { return c.w.cluster.StartComponent(always, name) }
	if name == sandbox.DefaultManager {
		if err := c.w.cluster.WaitForManager(always, name); err != nil {
			return fmt.Errorf("the operator ended by itself: %w", err)
		}
		kill = func() error { return c.w.cluster.KillManager(always, name) }
		start = func() error { return c.w.cluster.StartManager(always, sandbox.ManagerOptions{}) }
	}
	if err := kill(); err != nil {
		return fmt.Errorf("killing %s: %w", name, err)
	}
	pause(ctx, time.Duration(r.Int64N(int64(outage))))
	started := time.Now()
	if err := start(); err != nil && !c.serves(always, name) {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	c.audit.episodes.took(name+" killed", time.Since(started))
	if name == "kube-apiserver" {
		c.audit.observer.forgive(time.Now())
	}
	return nil
}

// restartEnded starts the programs of the control plane that have ended by themselves, as a kubelet does with static pods. The kube-scheduler
// exits when it is told of a pod on another node than it had noted, which happens after the API server was killed while it answered.
func (c *chaos) restartEnded(ctx context.Context) error {
	for _, name := range c.w.cluster.NotRunning() {
		if name == sandbox.DefaultManager {
			return errors.New("the operator ended by itself")
		}
		started := time.Now()
		if err := c.w.cluster.StartComponent(ctx, name); err != nil {
			return fmt.Errorf("starting %s, which ended by itself: %w", name, err)
		}
		c.audit.episodes.took(name+" ended by itself", time.Since(started))
	}
	return nil
}

// serves: the API server answers, though its probes do not, as they have less time than a busy machine needs.
func (c *chaos) serves(ctx context.Context, name string) bool {
	return name == "kube-apiserver" && c.w.c.List(ctx, &corev1.NodeList{}, client.Limit(1)) == nil
}

// breakHardware does something to a host or some pods, and mends the host that has been impaired for the longest.
func (c *chaos) breakHardware(ctx context.Context, r *rand.Rand) error {
	ctx = context.WithoutCancel(ctx) // half done it could not be mended
	if len(c.order) > 0 && (len(c.order) >= c.most || time.Since(c.impaired[c.order[0]].since) > hostOutage) {
		if err := c.mendFirst(ctx); err != nil {
			return err
		}
	}
	switch {
	case !c.short.IsZero() && time.Since(c.short) > quotaShort:
		return c.liftQuota(ctx)
	case c.short.IsZero() && r.IntN(6) == 0:
		return c.limitQuota(ctx, r)
	}
	h := c.hosts[r.IntN(len(c.hosts))]
	if _, already := c.impaired[h.name]; already {
		return c.deletePods(ctx, r)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.w.node(h.name)}}
	var mend func(context.Context) error
	var err error
	kind := ""
	switch r.IntN(5) {
	case 0:
		kind, mend = "node deleted", func(ctx context.Context) error { return c.addNode(ctx, h) }
		err = client.IgnoreNotFound(c.w.c.Delete(ctx, node))
	case 1:
		kind, mend = "node cordoned", func(ctx context.Context) error { return c.cordon(ctx, node, "null") }
		err = c.cordon(ctx, node, "true")
	case 2:
		kind, mend = "node NotReady", func(ctx context.Context) error { return c.w.cluster.StartKubelet(ctx, node.Name) }
		err = persist(ctx, func() error { return c.w.cluster.StopKubelet(ctx, node.Name) })
	default:
		return c.deletePods(ctx, r)
	}
	c.impaired[h.name] = impairment{time.Now(), mend}
	c.order = append(c.order, h.name)
	c.audit.episodes.strike(kind, c.audit.graphsOn(node.Name)...)
	return err
}

func (c *chaos) cordon(ctx context.Context, node *corev1.Node, value string) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%s}}`, value)
	return c.w.c.Patch(ctx, node.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}

func (c *chaos) addNode(ctx context.Context, h host) error {
	err := c.w.cluster.AddNodes(ctx, c.w.newNode(h))
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier attempt whose end was not seen
	}
	return err
}

// deletePods deletes up to three pods of graphs, some of them by force.
func (c *chaos) deletePods(ctx context.Context, r *rand.Rand) error {
	pods := c.audit.podsInOrder()
	for range min(len(pods), 1+r.IntN(3)) {
		pod := pods[r.IntN(len(pods))]
		c.audit.episodes.strike("pod deleted", pod.Labels[render.LabelGraph])
		err := c.w.c.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(int64(r.IntN(2))), client.Preconditions{UID: &pod.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// limitQuota has a quota of the namespace allow up to 24 GPUs more than are used now.
func (c *chaos) limitQuota(ctx context.Context, r *rand.Rand) error {
	hard := int64(r.IntN(25))
	for _, pod := range c.audit.podsInOrder() {
		hard += int64(gpusOf(pod))
	}
	q := c.quota()
	q.Spec.Hard = corev1.ResourceList{"requests." + gpu: *resource.NewQuantity(hard, resource.DecimalSI)}
	c.audit.episodes.strike("quota short")
	c.short = time.Now()
	if err := c.w.c.Create(ctx, q); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("limiting the GPUs of the namespace: %w", err)
	}
	return nil
}

func (c *chaos) liftQuota(ctx context.Context) error {
	c.audit.episodes.strike("quota lifted")
	c.short = time.Time{}
	return client.IgnoreNotFound(c.w.c.Delete(ctx, c.quota()))
}

func (c *chaos) quota() *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: c.w.name, Name: "gpus"}}
}

func (c *chaos) mendFirst(ctx context.Context) error {
	name := c.order[0]
	if err := persist(ctx, func() error { return c.impaired[name].mend(ctx) }); err != nil {
		return fmt.Errorf("mending host %s: %w", name, err)
	}
	c.order = c.order[1:]
	delete(c.impaired, name)
	return nil
}

// mendAll lifts the quota and mends every host.
func (c *chaos) mendAll(ctx context.Context) error {
	if !c.short.IsZero() {
		if err := persist(ctx, func() error { return c.liftQuota(ctx) }); err != nil {
			return err
		}
	}
	for len(c.order) > 0 {
		if err := c.mendFirst(ctx); err != nil {
			return err
		}
	}
	return nil
}
