// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/render"
)

// +kubebuilder:rbac:groups=resource.nvidia.com,resources=computedomains,verbs=create;delete;get;list

// domains caches the ComputeDomains of replicas, by group. The ComputeDomains of a group are listed once and not watched, because few
// clusters have the kind and no other client changes these objects.
type domains struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]domainsOfGroup
}

// domainsOfGroup has the UID of a group, and the UIDs of its replicas' ComputeDomains by ordinal.
type domainsOfGroup struct {
	group     types.UID
	byOrdinal map[int32]types.UID
}

func (d *domains) set(sg *trellisv1alpha1.ScalingGroup, has map[int32]types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.groups == nil {
		d.groups = map[types.NamespacedName]domainsOfGroup{}
	}
	d.groups[client.ObjectKeyFromObject(sg)] = domainsOfGroup{sg.UID, has}
}

func (d *domains) of(sg *trellisv1alpha1.ScalingGroup) (has map[int32]types.UID, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.groups[client.ObjectKeyFromObject(sg)]
	return of.byOrdinal, of.group == sg.UID
}

// forget drops the ComputeDomains of a deleted group.
func (d *domains) forget(name types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.groups, name)
}

// prepareDomains creates the ComputeDomains of the replicas for which the steps create pods. The pods are created afterwards, because they
// wait for the claim templates that the driver creates for a ComputeDomain. A replica whose ComputeDomain cannot be created gets no pods.
// prepareDomains also deletes the ComputeDomains of replicas that will not return.
func (p *pass) prepareDomains(ctx context.Context) error {
	sg, s := p.sg, &p.steps
	if render.ReplicaDomain(sg, 0) == nil {
		return nil
	}
	has, err := p.domains.read(ctx, p.Live, sg)
	if err != nil {
		return err
	}
	making := map[int32]bool{}
	for _, pod := range s.create {
		ordinal, _, _ := render.ReplicaOf(pod)
		making[ordinal] = true
	}
	for _, ordinal := range s.make {
		making[ordinal] = true
	}
	var failures []error
	for ordinal := range making {
		uid, err := makeDomain(ctx, p.Domains, p.Live, sg, ordinal)
		if err != nil {
			failures = append(failures, err)
			s.leaveOut(ordinal)
			continue
		}
		has[ordinal] = uid
	}
	for _, ordinal := range spareDomains(has, p.replicas, making, sg.Spec.Replicas) {
		if err := deleteDomain(ctx, p.Domains, sg, ordinal, has[ordinal]); err != nil {
			failures = append(failures, err)
			continue
		}
		delete(has, ordinal)
	}
	return errors.Join(failures...)
}

// spareDomains returns, in order, the ordinals whose ComputeDomains no replica will use. Such an ordinal has no replica now. It also gets
// none later, because it is not below the wanted number of replicas, or because at least the wanted number of replicas exists.
func spareDomains(has map[int32]types.UID, replicas map[int32]*replica, making map[int32]bool, wanted int32) (spare []int32) {
	for ordinal := range has {
		if replicas[ordinal] == nil && !making[ordinal] && (ordinal >= wanted || len(replicas) >= int(wanted)) {
			spare = append(spare, ordinal)
		}
	}
	slices.Sort(spare)
	return spare
}

// leaveOut removes the creates of a replica from the steps.
func (s *steps) leaveOut(ordinal int32) {
	s.create = slices.DeleteFunc(s.create, func(pod *corev1.Pod) bool {
		of, _, _ := render.ReplicaOf(pod)
		return of == ordinal
	})
	s.make = slices.DeleteFunc(s.make, func(of int32) bool { return of == ordinal })
}

// read returns the ComputeDomains of a group's replicas; none if the cluster does not serve the kind.
func (d *domains) read(ctx context.Context, live client.Reader, sg *trellisv1alpha1.ScalingGroup) (map[int32]types.UID, error) {
	if has, known := d.of(sg); known {
		return has, nil
	}
	has, list := map[int32]types.UID{}, &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(nvlink.GroupVersion.WithKind(nvlink.Kind + "List"))
	err := live.List(ctx, list, client.InNamespace(sg.Namespace), client.MatchingLabels(render.ReplicaDomainLabels(sg)))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return has, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing ComputeDomains: %w", err)
	}
	for i := range list.Items {
		if ordinal, ok := render.OrdinalOf(&list.Items[i]); ok && metav1.IsControlledBy(&list.Items[i], sg) {
			has[ordinal] = list.Items[i].GetUID()
		}
	}
	d.set(sg, has)
	return has, nil
}

// makeDomain creates the ComputeDomain of a replica, unless it exists, and returns its UID.
func makeDomain(
	ctx context.Context, c client.Writer, live client.Reader, sg *trellisv1alpha1.ScalingGroup, ordinal int32,
) (types.UID, error) {
	domain := render.ReplicaDomain(sg, ordinal)
	domain.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))})
	err := c.Create(ctx, domain)
	if err == nil {
		log.FromContext(ctx).Info("made the ComputeDomain of a replica", "computeDomain", domain.GetName())
		return domain.GetUID(), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("creating ComputeDomain %s: %w", domain.GetName(), err)
	}
	existing := &unstructured.Unstructured{}
	existing.SetGroupVersionKind(domain.GroupVersionKind())
	switch err := live.Get(ctx, client.ObjectKeyFromObject(domain), existing); {
	case err != nil:
		return "", fmt.Errorf("reading ComputeDomain %s: %w", domain.GetName(), err)
	case existing.GetDeletionTimestamp() != nil:
		return "", fmt.Errorf("ComputeDomain %s is being deleted, and its replica waits for its end", domain.GetName())
	case !metav1.IsControlledBy(existing, sg):
		return "", fmt.Errorf("ComputeDomain %s exists and is not this group's; it is left alone", domain.GetName())
	}
	return existing.GetUID(), nil
}

func deleteDomain(ctx context.Context, c client.Writer, sg *trellisv1alpha1.ScalingGroup, ordinal int32, uid types.UID) error {
	domain := render.ReplicaDomain(sg, ordinal)
	log.FromContext(ctx).Info("deleting the ComputeDomain of a replica that is gone", "computeDomain", domain.GetName())
	err := c.Delete(ctx, domain, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting ComputeDomain %s: %w", domain.GetName(), err)
	}
	return nil
}
