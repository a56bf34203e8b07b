// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/leftovers"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// This file maintains the disruption budget of a scaling group, which limits evictions that do not reach the webhook. The budget is created
// when a replica of the group first serves, so that waiting deployments have no budget. Kubernetes refuses to evict a pod that two budgets
// select, so a group has no budget while another budget selects one of its pods.

// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=create;delete;list;patch;watch

// indexBudgetsOfOthers indexes, under the value otherOwner, the budgets that Trellis has not created.
const (
	indexBudgetsOfOthers = "trellis.budgets.others"
	otherOwner           = "true"
)

// budgetOwner returns the values of indexBudgetsOfOthers for a budget.
func budgetOwner(object client.Object) []string {
	if render.OwnBudget(object.(*policyv1.PodDisruptionBudget)) {
		return nil
	}
	return []string{otherOwner}
}

// budgets maintains the PodDisruptionBudgets of groups.
type budgets struct {
	client client.Client
	live   client.Reader
}

func (r *Reconciler) budgets() budgets { return budgets{r.Client, r.Live} }

// keep creates, changes or deletes the disruption budget of a group. stay is the budget's minAvailable; 0 for no budget.
func (b budgets) keep(ctx context.Context, o observed, stay int32) error {
	if stay > 0 {
		others, err := b.ofOthers(ctx, o.sg.Namespace, o.pods.own)
		if err != nil {
			return err
		}
		if others {
			stay = 0
		}
	}
	existing, err := b.of(ctx, o.sg)
	switch {
	case err != nil:
		return err
	case existing != nil && (stay == 0 || !metav1.IsControlledBy(existing, o.sg)): // a budget that an earlier owner left is recreated
		return b.delete(ctx, o.sg, existing)
	case existing != nil:
		return b.change(ctx, existing, render.DisruptionBudget(o.sg, stay))
	case stay > 0 && serves(o.replicas):
		return b.create(ctx, o.sg, render.DisruptionBudget(o.sg, stay))
	}
	return nil
}

// podsThatStay returns how many pods of a group must remain when pods are evicted; 0: evictions are not limited.
func podsThatStay(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) int32 {
	if sg.Spec.Moves == trellisv1alpha1.MovesNever || render.Oversized(sg) {
		return 0
	}
	sizes := make([]int, 0, len(replicas))
	for _, one := range replicas {
		if one.there() {
			sizes = append(sizes, one.size)
		}
	}
	return rollout.For(sg).PodsThatStay(int(render.PodsPerReplica(sg)), sizes)
}

func serves(replicas map[int32]*replica) bool {
	for _, one := range replicas {
		if state, _ := one.state(); state == rollout.Available {
			return true
		}
	}
	return false
}

// ofOthers reports whether a budget that Trellis has not created selects one of the pods.
func (b budgets) ofOthers(ctx context.Context, namespace string, pods []*corev1.Pod) (bool, error) {
	budgets := &policyv1.PodDisruptionBudgetList{}
	err := b.client.List(ctx, budgets, client.InNamespace(namespace), client.MatchingFields{indexBudgetsOfOthers: otherOwner},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing the PodDisruptionBudgets of the namespace: %w", err)
	}
	for i := range budgets.Items {
		if budgets.Items[i].DeletionTimestamp == nil && render.Selects(&budgets.Items[i], pods) {
			return true, nil
		}
	}
	return false, nil
}

// of returns the budget of a group from the cache; nil if there is none, it is being deleted, or Trellis has not created it.
func (b budgets) of(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (*policyv1.PodDisruptionBudget, error) {
	budget := &policyv1.PodDisruptionBudget{}
	err := b.client.Get(ctx, types.NamespacedName{Namespace: sg.Namespace, Name: render.BudgetName(sg.Name)}, budget)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the PodDisruptionBudget of the group: %w", err)
	case budget.DeletionTimestamp != nil || !render.OwnBudget(budget):
		return nil, nil
	}
	return budget, nil
}

// create creates the budget of a group. It does not change an existing budget of this name.
func (b budgets) create(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, budget *policyv1.PodDisruptionBudget) error {
	budget.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	err := b.client.Create(ctx, budget, client.FieldOwner(render.FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return wrapped(err, "creating PodDisruptionBudget %s", budget.Name)
}

// change sets the wanted spec of a budget. The patch tests the UID, so that it does not change another budget of the same name.
func (b budgets) change(ctx context.Context, existing, wanted *policyv1.PodDisruptionBudget) error {
	if equality.Semantic.DeepEqual(existing.Spec, wanted.Spec) {
		return nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": existing.UID}, {"op": "add", "path": "/spec", "value": wanted.Spec},
	})
	if err != nil {
		return err
	}
	err = b.client.Patch(ctx, existing, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(render.FieldOwner))
	return wrapped(client.IgnoreNotFound(err), "changing PodDisruptionBudget %s", existing.Name)
}

// delete deletes a budget of the group, or of an earlier group of the same name.
func (b budgets) delete(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, budget *policyv1.PodDisruptionBudget) error {
	if !metav1.IsControlledBy(budget, sg) {
		return leftovers.DeleteAll(ctx, b.client, b.live, sg, []*policyv1.PodDisruptionBudget{budget})
	}
	log.FromContext(ctx).Info("deleting a disruption budget", "podDisruptionBudget", budget.Name)
	err := b.client.Delete(ctx, budget, client.Preconditions{UID: &budget.UID})
	if apierrors.IsConflict(err) {
		return nil
	}
	return wrapped(client.IgnoreNotFound(err), "deleting PodDisruptionBudget %s", budget.Name)
}

// concerned returns the groups to reconcile after a change of a budget: its own group if Trellis created the budget, otherwise all groups
// with pods that the budget selects.
func (b budgets) concerned(ctx context.Context, object client.Object) []reconcile.Request {
	budget := object.(*policyv1.PodDisruptionBudget)
	if render.OwnBudget(budget) {
		group := budget.Labels[render.LabelScalingGroup]
		if owner := metav1.GetControllerOfNoCopy(budget); owner != nil {
			group = owner.Name
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: budget.Namespace, Name: group}}}
	}
	pods := &corev1.PodList{}
	if err := b.client.List(ctx, pods, client.InNamespace(budget.Namespace), client.HasLabels{render.LabelScalingGroup},
		client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "listing the pods that a PodDisruptionBudget may select", "podDisruptionBudget", budget.Name)
		return nil
	}
	var out []reconcile.Request
	seen := map[reconcile.Request]bool{}
	for i := range pods.Items {
		if !render.Selects(budget, []*corev1.Pod{&pods.Items[i]}) {
			continue
		}
		for _, request := range groupOf(ctx, &pods.Items[i]) {
			if !seen[request] {
				out = append(out, request)
			}
			seen[request] = true
		}
	}
	return out
}
