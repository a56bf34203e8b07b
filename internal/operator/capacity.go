// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

const (
	// capacityNodes is the largest cluster that admission looks at: it counts all nodes for each deployment. On a larger one Placed says it
	// later.
	capacityNodes = 20_000
	// capacityWithin bounds the reads of one look.
	capacityWithin = time.Second
)

// capacity says for admission what of a deployment no domain of today's nodes could hold. Nothing is said before the caches of nodes and
// topologies are there, and when something cannot be read: only what is certain.
type capacity struct {
	cached, live client.Reader
	synced       []func() bool
	ignored      []string
}

func readCapacity(mgr ctrl.Manager, ignored []string) (*capacity, error) {
	c := &capacity{cached: mgr.GetCache(), live: mgr.GetAPIReader(), ignored: ignored}
	for _, object := range []client.Object{&corev1.Node{}, &grovev1alpha1.ClusterTopology{}} {
		informer, err := mgr.GetCache().GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		c.synced = append(c.synced, informer.HasSynced)
	}
	return c, nil
}

// warn returns a sentence for each gang that would wait for larger domains or hosts.
func (c *capacity) warn(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	for _, synced := range c.synced {
		if !synced() {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), capacityWithin)
	defer cancel()
	nodes, topologies, classes := &corev1.NodeList{}, &grovev1alpha1.ClusterTopologyList{}, &resourcev1.DeviceClassList{}
	if err := c.cached.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil || len(nodes.Items) > capacityNodes {
		return nil
	}
	if err := c.cached.List(ctx, topologies, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	if err := c.live.List(ctx, classes); err != nil && !meta.IsNoMatchError(err) {
		return nil // what they serve need not be offered by nodes
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
	return whatif.NeverFits(w, dgd)
}
