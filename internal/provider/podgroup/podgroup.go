// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/gates"
)

// Placer is the provider PodGroup. Pods are released and requeued as under Gates.
type Placer struct {
	gates.Placer
	// Discovery says what the API server serves.
	Discovery discovery.ServerResourcesInterface
	// Namespace in which fields are tried, without leaving anything.
	Namespace string
}

var _ provider.Placer = Placer{}

// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=podgroups,verbs=create;get;list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=compositepodgroups,verbs=create;get
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=workloads,verbs=create

// Name implements provider.Provider.
func (Placer) Name() string { return graph.ProviderPodGroup }

// Watches implements provider.Provider. The root of a tree has no status worth watching: the scheduler writes none.
func (Placer) Watches() []provider.Watch {
	return []provider.Watch{{Object: &schedulingv1beta1.PodGroup{}, Graph: func(o client.Object) (types.NamespacedName, bool) {
		name := o.GetAnnotations()[annotationGraph]
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, name != ""
	}}}
}

// Prepare implements provider.Placer: the pods of one generation of a replica name one group.
func (Placer) Prepare(sg *trellisv1alpha1.ScalingGroup, ordinal int32, fresh, made []*corev1.Pod) {
	name := ""
	for _, pod := range made {
		name = groupOf(pod)
	}
	if name == "" {
		name = groupName(sg, ordinal, rand.String(5))
	}
	for _, pod := range fresh {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(name)}
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, graph.AnnotationPodProvider, graph.ProviderPodGroup)
	}
}

// Kept implements provider.Placer.
func (Placer) Kept(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return groupOf(pod) == "" || groupOf(pod) != groupOf(pods[0]) || pod.Annotations[graph.AnnotationPodProvider] != graph.ProviderPodGroup
	})
}

// Form implements provider.Placer: the groups first, the largest before the others, then their root. Pods are gated meanwhile, so no half of
// the tree can be taken for the whole.
func (p Placer) Form(ctx context.Context, gang provider.Gang) error {
	slices.SortStableFunc(gang.Replicas, func(a, b provider.Replica) int { return int(size(b.Group) - size(a.Group)) })
	w := workload(gang.Graph, gang.Groups)
	if err := p.Client.Create(ctx, w, provider.Unwatched); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Workload %s: %w", w.Name, err)
	}
	members := make([]*schedulingv1beta1.PodGroup, 0, len(gang.Replicas))
	for _, replica := range gang.Replicas {
		member, err := p.formGroup(ctx, gang, group(gang, replica, w))
		if err != nil {
			return err
		}
		members = append(members, member)
	}
	if !gang.Base {
		return nil
	}
	return p.formTree(ctx, tree(gang, w, members))
}

// formGroup creates a group, or makes sure that the one there is of that name will do.
func (p Placer) formGroup(ctx context.Context, gang provider.Gang, want *schedulingv1beta1.PodGroup) (*schedulingv1beta1.PodGroup, error) {
	made := want.DeepCopy()
	err := p.Client.Create(ctx, made, provider.Unwatched)
	switch {
	case err == nil:
		if why := dropped(want, made); why != "" {
			return nil, fmt.Errorf("creating PodGroup %s: %s", want.Name, why)
		}
		return made, nil
	case !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("creating PodGroup %s: %w", want.Name, err)
	}
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(want), made); err != nil {
		return nil, fmt.Errorf("reading PodGroup %s: %w", want.Name, err)
	}
	if made.DeletionTimestamp != nil || dropped(want, made) != "" || gang.Base && !equal(made.Spec.ParentCompositePodGroupName, want.Spec.ParentCompositePodGroupName) {
		return nil, fmt.Errorf("PodGroup %s: %w", want.Name, provider.ErrStale)
	}
	if parent := made.Spec.ParentCompositePodGroupName; parent != nil && !gang.Base { // the rest of a gang whose release was cut short
		err := p.Live.Get(ctx, types.NamespacedName{Namespace: made.Namespace, Name: *parent}, &schedulingv1alpha3.CompositePodGroup{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("PodGroup %s, whose root %s is gone: %w", want.Name, *parent, provider.ErrStale)
		}
		return made, err
	}
	return made, nil
}

func equal(a, b *string) bool { return ptr.Deref(a, "") == ptr.Deref(b, "") }

func (p Placer) formTree(ctx context.Context, want *schedulingv1alpha3.CompositePodGroup) error {
	made := want.DeepCopy()
	err := p.Client.Create(ctx, made, provider.Unwatched)
	switch {
	case apierrors.IsAlreadyExists(err):
		if err := p.Live.Get(ctx, client.ObjectKeyFromObject(want), made); err != nil {
			return fmt.Errorf("reading CompositePodGroup %s: %w", want.Name, err)
		}
	case err != nil:
		return fmt.Errorf("creating CompositePodGroup %s: %w", want.Name, err)
	}
	gang := made.Spec.SchedulingPolicy.Gang
	if made.DeletionTimestamp != nil || gang == nil || gang.MinGroupCount != want.Spec.SchedulingPolicy.Gang.MinGroupCount ||
		(made.Spec.SchedulingConstraints == nil) != (want.Spec.SchedulingConstraints == nil) {
		return fmt.Errorf("CompositePodGroup %s: %w", want.Name, provider.ErrStale)
	}
	return nil
}

// dropped says which field of a group the API server has taken out.
func dropped(want, made *schedulingv1beta1.PodGroup) string {
	switch {
	case want.Spec.SchedulingConstraints != nil && made.Spec.SchedulingConstraints == nil:
		return "the API server drops spec.schedulingConstraints of PodGroups"
	case want.Spec.ParentCompositePodGroupName != nil && made.Spec.ParentCompositePodGroupName == nil:
		return "the API server drops spec.parentCompositePodGroupName of PodGroups"
	}
	return ""
}
