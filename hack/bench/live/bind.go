// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Bind creates the objects of a way and returns the time from the first create until the last pod is bound. Then it checks the pods' hosts,
// and deletes all objects.
func (c *Cluster) Bind(ctx context.Context, way Way, gangs, podsPerGang int) (time.Duration, error) {
	return c.bind(ctx, way, gangs, podsPerGang, func(*pods) error { return nil })
}

// bind is Bind; look gets the bound pods before they are deleted.
func (c *Cluster) bind(ctx context.Context, way Way, gangs, podsPerGang int, look func(*pods) error) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := c.follow(ctx, boundOnly)
	if err != nil {
		return 0, err
	}
	defer p.events.Stop()
	if len(p.byName) > 0 {
		return 0, fmt.Errorf("%d pods are left from before", len(p.byName))
	}
	batches, want := way.objects(c.shape, gangs, podsPerGang), gangs*podsPerGang
	before, err := c.costSoFar(ctx)
	if err != nil {
		return 0, err
	}
	created := make(chan error, 1)
	start := time.Now()
	go func() {
		err := way.send(ctx, c, batches)
		if err != nil {
			cancel()
		}
		created <- err
	}()
	err = p.until(ctx, "all pods are bound", func() bool { return p.bound() >= want })
	took := time.Since(start)
	if failed := <-created; failed != nil {
		return 0, failed
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", way.Name, err)
	}
	if err := c.spent(ctx, way, gangs, before); err != nil {
		return 0, err
	}
	if err := c.judge(p, way, gangs, podsPerGang); err != nil {
		return 0, fmt.Errorf("%s: %w", way.Name, err)
	}
	if err := look(p); err != nil {
		return 0, fmt.Errorf("%s: %w", way.Name, err)
	}
	return took, c.clear(ctx, p)
}

// judge converts the pods' hosts into the common form and checks them.
func (c *Cluster) judge(p *pods, way Way, gangs, podsPerGang int) error {
	ask := hall.Ask{Name: way.Name, Whole: hall.Cluster, Each: hall.Rack, Gangs: gangs, Pods: podsPerGang, GPUs: hall.GPUs}
	if way.gangOf == nil {
		ask.Gangs, ask.Pods = gangs*podsPerGang, 1
		return judgeGangs(c.shape, p, ask, func(pod *corev1.Pod) string { return pod.Name })
	}
	return judgeGangs(c.shape, p, ask, way.gangOf)
}

// judgeGangs checks the hosts of pods in gangs. Pods of gang "" take no GPUs and may be anywhere.
func judgeGangs(shape hall.Shape, p *pods, ask hall.Ask, gangOf func(*corev1.Pod) string) error {
	byGang := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(p.byName)) {
		if gang := gangOf(p.byName[name]); gang != "" {
			byGang[gang] = append(byGang[gang], p.byName[name].Spec.NodeName)
		}
	}
	return hall.NewLedger(shape, nil).Take(ask, slices.Collect(maps.Values(byGang)))
}

// clear deletes everything and waits until nothing is left and the machine is quiet: garbage collection of one way would otherwise slow
// down the next.
func (c *Cluster) clear(ctx context.Context, p *pods) error {
	for _, kind := range []client.Object{
		&nvidiav1beta1.DynamoGraphDeployment{}, &corev1.Pod{}, &schedulingv1beta1.PodGroup{}, &schedulingv1alpha3.CompositePodGroup{},
	} {
		if err := c.deleteAll(ctx, kind); err != nil {
			return err
		}
	}
	if err := p.until(ctx, "all pods are gone", func() bool { return len(p.byName) == 0 }); err != nil {
		return err
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &schedulingv1beta1.PodGroupList{},
		&schedulingv1alpha3.CompositePodGroupList{}} {
		if err := c.untilNone(ctx, list); err != nil { // includes pods that p does not follow
			return err
		}
	}
	for _, kind := range c.theirs {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.untilNone(ctx, list); err != nil {
			return fmt.Errorf("waiting until no %s is left: %w", kind.Kind, err)
		}
	}
	for _, list := range []client.ObjectList{
		&rbacv1.RoleBindingList{}, &rbacv1.RoleList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
	} {
		if err := c.untilNone(ctx, list, client.HasLabels{render.LabelManagedBy}); err != nil {
			return err
		}
	}
	return c.untilQuiet(ctx)
}

func (c *Cluster) deleteAll(ctx context.Context, kind client.Object) error {
	options := []client.DeleteAllOfOption{client.InNamespace(namespace)}
	if _, ok := kind.(*corev1.Pod); ok { // deployments' pods are deleted with them
		options = append(options, client.HasLabels{gangLabelKey})
	}
	err := c.c.DeleteAllOf(ctx, kind, options...)
	for apierrors.IsTimeout(err) { // the API server deletes as many objects as it can within a minute
		err = c.c.DeleteAllOf(ctx, kind, options...)
	}
	if err != nil && !meta.IsNoMatchError(err) { // without the operator the kind is not served
		return fmt.Errorf("deleting every %T: %w", kind, err)
	}
	return nil
}
