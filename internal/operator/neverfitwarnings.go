// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

const (
	// capacityNodes is the maximum number of nodes for which admission calculates capacity, because each change of a node causes a new
	// calculation for all nodes. On larger clusters, only the condition Placed reports gangs that never fit.
	capacityNodes = 20_000
	// capacityWithin bounds the time for the reads of one calculation.
	capacityWithin = time.Second
)

// capacity returns admission warnings about gangs that no domain of the current nodes can hold. It returns no warnings before the caches of
// nodes and topologies are synced, or after a failed read, so that every warning is certain.
type capacity struct {
	cached  client.Reader
	synced  []func() bool
	ignored []string
	// stale: nodes, topologies or device classes have changed since the planner was created.
	stale atomic.Bool

	// mu guards planner, which is replaced when it is stale. The cost of creating a planner grows with the size of the cluster; the cost of
	// using a planner does not.
	mu      sync.Mutex
	planner *whatif.Planner
}

func readCapacity(mgr ctrl.Manager, ignored []string) (*capacity, error) {
	c := &capacity{cached: mgr.GetCache(), ignored: ignored}
	c.stale.Store(true)
	for _, object := range []client.Object{&corev1.Node{}, &grovev1alpha1.ClusterTopology{}, &resourcev1.DeviceClass{}} {
		informer, err := mgr.GetCache().GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
		if _, isClass := object.(*resourcev1.DeviceClass); isClass && meta.IsNoMatchError(err) {
			continue // the cluster does not serve device classes
		}
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(c); err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		c.synced = append(c.synced, informer.HasSynced)
	}
	return c, nil
}

// OnAdd implements [toolscache.ResourceEventHandler].
func (c *capacity) OnAdd(any, bool) { c.stale.Store(true) }

// OnUpdate implements [toolscache.ResourceEventHandler].
func (c *capacity) OnUpdate(old, now any) {
	if node, is := now.(*corev1.Node); !is || !scheduler.SameCapacity(old.(*corev1.Node), node) {
		c.stale.Store(true)
	}
}

// OnDelete implements [toolscache.ResourceEventHandler].
func (c *capacity) OnDelete(any) { c.stale.Store(true) }

// warn returns a sentence for each gang that cannot be placed because hosts are too few or too small or lack labels, and for each problem
// with the topology levels that the deployment uses.
func (c *capacity) warn(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	for _, synced := range c.synced {
		if !synced() {
			return nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale.Swap(false) {
		var err error
		if c.planner, err = c.newPlanner(); err != nil {
			c.stale.Store(true)
		}
	}
	if c.planner == nil {
		return nil
	}
	return append(c.planner.NeverFits(dgd), c.planner.MisplacedBy(dgd)...)
}

// newPlanner creates a planner for the current nodes; nil if there are too many nodes.
func (c *capacity) newPlanner() (*whatif.Planner, error) {
	ctx, cancel := context.WithTimeout(context.Background(), capacityWithin)
	defer cancel()
	nodes, topologies, classes := &corev1.NodeList{}, &grovev1alpha1.ClusterTopologyList{}, &resourcev1.DeviceClassList{}
	if err := c.cached.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil || len(nodes.Items) > capacityNodes {
		return nil, err
	}
	if err := c.cached.List(ctx, topologies, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	if err := c.cached.List(ctx, classes, client.UnsafeDisableDeepCopy); err != nil && !meta.IsNoMatchError(err) {
		return nil, err // nodes need not offer the resources that device classes serve
	}
	w := whatif.World{Ignored: c.ignored}
	for i := range nodes.Items {
		w.Nodes = append(w.Nodes, &nodes.Items[i])
	}
	for i := range topologies.Items {
		w.Topologies = append(w.Topologies, &topologies.Items[i])
	}
	for i := range classes.Items {
		w.Devices = append(w.Devices, &classes.Items[i])
	}
	return whatif.NewPlanner(w), nil
}
