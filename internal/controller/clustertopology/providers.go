// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// ProviderTopology is a provider with its own topology object.
type ProviderTopology struct {
	Provider string
	// For lists the other providers whose scheduler reads the object.
	For []string
	// Keep updates the provider's object, and describes how the object still differs from the ClusterTopology; "" if it does not differ.
	Keep func(ctx context.Context, ct *grovev1alpha1.ClusterTopology) (string, error)
}

// providersChanged returns a channel with an event for each change of a provider's state or of its cluster-scoped topology objects. Each
// event triggers a reconcile of all topologies.
func (r *Reconciler) providersChanged() <-chan event.GenericEvent {
	changed := make(chan event.GenericEvent, 64)
	notify := func() {
		select {
		case changed <- event.GenericEvent{Object: &grovev1alpha1.ClusterTopology{}}:
		default: // an event for all topologies is already pending
		}
	}
	r.Providers.OnState(func(string) { notify() })
	r.Providers.OnTopologyChange(notify)
	return changed
}

func topologyOfGroup(_ context.Context, o client.Object) []reconcile.Request {
	t := o.(*trellisv1alpha1.ScalingGroup).Spec.Topology
	if t == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: t.ClusterTopology}}}
}

// kept describes the topology objects that the providers in use have for one ClusterTopology.
type kept struct {
	// providers are the names of the ready providers in use. differs describes how their objects differ from the ClusterTopology.
	providers []string
	differs   []string
}

// keepTopologies updates the topology objects of the providers that are ready and that deployments with this topology use. It returns the
// names of these providers, and the remaining differences of their objects.
func (r *Reconciler) keepTopologies(ctx context.Context, ct *grovev1alpha1.ClusterTopology) (kept, error) {
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := r.Client.List(ctx, groups, client.UnsafeDisableDeepCopy); err != nil {
		return kept{}, fmt.Errorf("listing scaling groups: %w", err)
	}
	var out kept
	var failures []error
	for _, topology := range r.Topologies {
		used := slices.ContainsFunc(groups.Items, func(sg trellisv1alpha1.ScalingGroup) bool {
			return (sg.Spec.Provider == topology.Provider || slices.Contains(topology.For, sg.Spec.Provider)) && sg.Spec.Topology != nil &&
				sg.Spec.Topology.ClusterTopology == ct.Name
		})
		if !used || ct.DeletionTimestamp != nil || !r.Providers.State(ctx, topology.Provider).Ready {
			continue
		}
		out.providers = append(out.providers, topology.Provider)
		why, err := topology.Keep(ctx, ct)
		if err != nil {
			why = err.Error()
			failures = append(failures, err)
		}
		if why != "" {
			out.differs = append(out.differs, topology.Provider+": "+why)
		}
	}
	return out, errors.Join(failures...)
}

func setSchedulersInSync(ct *grovev1alpha1.ClusterTopology, status *grovev1alpha1.ClusterTopologyStatus, k kept) {
	if len(k.providers) == 0 {
		meta.RemoveStatusCondition(&status.Conditions, grovev1alpha1.ConditionSchedulersInSync)
		return
	}
	c := metav1.Condition{
		Type: grovev1alpha1.ConditionSchedulersInSync, Status: metav1.ConditionTrue, ObservedGeneration: ct.Generation,
		Reason: grovev1alpha1.ReasonTopologiesAgree, Message: "the topology objects of " + strings.Join(k.providers, ", ") + " say the same",
	}
	if len(k.differs) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, grovev1alpha1.ReasonTopologiesDiffer, limit.Text(strings.Join(k.differs, "; "),
			limit.Condition)
	}
	meta.SetStatusCondition(&status.Conditions, c)
}
