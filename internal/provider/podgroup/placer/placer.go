// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placer creates the PodGroups of gangs with the Kubernetes API, and checks whether the API is served; see package podgroup.
package placer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/provider/podgroup"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Placer is the provider PodGroup. It releases and requeues pods as Gates does.
type Placer struct {
	gates.Placer
	// Discovery lists the resources that the API server serves.
	Discovery discovery.ServerResourcesInterface
	// Composite holds the API version that probes find; nil for v1alpha3.
	Composite *Composite
	// Namespace is the namespace of the dry-run requests that test whether the API server drops fields.
	Namespace string
}

var (
	_ provider.Placer  = Placer{}
	_ provider.Adopter = Placer{}
)

// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=podgroups,verbs=create;get;list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=compositepodgroups,verbs=create;get;patch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=workloads,verbs=create;list;patch

// Name implements provider.Provider.
func (Placer) Name() string { return specs.PodGroup.Name }

// Watches implements provider.Provider: it watches only PodGroups, because the scheduler writes no status of a tree's root.
func (Placer) Watches() []provider.Watch {
	return []provider.Watch{{Object: &schedulingv1beta1.PodGroup{}, Graph: func(o client.Object) (types.NamespacedName, bool) {
		name := o.GetAnnotations()[podgroup.AnnotationGraph]
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, name != ""
	}}}
}

// Unsuited implements provider.Provider.
func (Placer) Unsuited(groups []*trellisv1alpha1.ScalingGroup) string {
	return podgroup.Unsuited(groups)
}

// Prepare implements provider.Placer: all pods of one generation of a replica name the same PodGroup.
func (Placer) Prepare(sg *trellisv1alpha1.ScalingGroup, ordinal int32, fresh, made []*corev1.Pod) {
	podgroup.Prepare(sg, ordinal, fresh, made, rand.String(5))
}

// Kept implements provider.Placer.
func (Placer) Kept(pods []*corev1.Pod) bool { return podgroup.Kept(pods) }

// Objections implements provider.Placer.
func (Placer) Objections(ctx context.Context, own client.Reader, unbound, all []*corev1.Pod) map[types.UID]gang.Objection {
	of, groups := unbound[0], &schedulingv1beta1.PodGroupList{}
	watched := own != nil && own.List(ctx, groups, client.InNamespace(of.Namespace),
		client.MatchingLabels{render.LabelGraph: of.Labels[render.LabelGraph]}, client.UnsafeDisableDeepCopy) == nil
	return podgroup.Objections(groups.Items, watched, unbound, all)
}

// Form implements provider.Placer: it creates the PodGroups, the largest first, and then their root. The pods are still gated, so the
// scheduler cannot mistake a part of the tree for the whole tree.
func (p Placer) Form(ctx context.Context, of gang.Members) error {
	podgroup.LargestFirst(of.Replicas)
	w := podgroup.Workload(of.Graph, of.Groups)
	if err := p.Client.Create(ctx, w); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Workload %s: %w", w.Name, err)
	}
	members := make([]*schedulingv1beta1.PodGroup, 0, len(of.Replicas))
	for _, replica := range of.Replicas {
		member, err := p.formGroup(ctx, of, podgroup.Group(of, replica, w))
		if err != nil {
			return err
		}
		members = append(members, member)
	}
	if !of.Base {
		return nil
	}
	return p.formTree(ctx, podgroup.Tree(of, w, members))
}

// Adopt implements provider.Adopter: it adopts the graph's Workloads. PodGroups need no adoption, because pods own them.
func (p Placer) Adopt(ctx context.Context, by adoption.Adopter) error {
	workloads := &schedulingv1beta1.WorkloadList{}
	if err := p.Live.List(ctx, workloads, client.InNamespace(by.Owner.GetNamespace()),
		client.MatchingLabels{render.LabelGraph: render.LabelValue(by.Owner.GetName())}); err != nil {
		return fmt.Errorf("listing the Workloads of the graph: %w", err)
	}
	for i := range workloads.Items {
		if w := &workloads.Items[i]; adoption.Orphaned(w) {
			if err := by.Adopt(ctx, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// formGroup creates a PodGroup, or checks that an existing PodGroup matches.
func (p Placer) formGroup(ctx context.Context, of gang.Members, want *schedulingv1beta1.PodGroup) (*schedulingv1beta1.PodGroup, error) {
	made := want.DeepCopy()
	err := p.Client.Create(ctx, made)
	switch {
	case err == nil:
		if why := podgroup.Dropped(want, made); why != "" {
			return nil, fmt.Errorf("creating PodGroup %s: %s", want.Name, why)
		}
		return made, nil
	case !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("creating PodGroup %s: %w", want.Name, err)
	}
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(want), made); err != nil {
		return nil, fmt.Errorf("reading PodGroup %s: %w", want.Name, err)
	}
	if made.DeletionTimestamp != nil || podgroup.Dropped(want, made) != "" || of.Base && !equal(made.Spec.ParentCompositePodGroupName,
		want.Spec.ParentCompositePodGroupName) {
		return nil, fmt.Errorf("PodGroup %s: %w", want.Name, provider.ErrStale)
	}
	if parent := made.Spec.ParentCompositePodGroupName; parent != nil && !of.Base { // the rest of a gang whose release was interrupted
		err := p.Live.Get(ctx, types.NamespacedName{Namespace: made.Namespace, Name: *parent}, p.root())
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("PodGroup %s, whose root %s is gone: %w", want.Name, *parent, provider.ErrStale)
		}
		return made, err
	}
	return made, nil
}

func equal(a, b *string) bool { return ptr.Deref(a, "") == ptr.Deref(b, "") }
