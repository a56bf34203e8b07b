// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// Bindings reads the ClusterTopologyBindings that Trellis did not write.
type Bindings interface {
	// Binding returns the Binding with this name as a ClusterTopology; nil if there is none. why is the reason why the Binding cannot be
	// read as a ClusterTopology; "" if it can.
	Binding(name string) (as *grovev1alpha1.ClusterTopology, why string)
}

// readable is the condition type in events about a Binding that cannot be read as a ClusterTopology.
const readable = "Readable"

func (r *Reconciler) bindingOf(name string) (as *grovev1alpha1.ClusterTopology, why string) {
	if r.Bindings == nil {
		return nil, ""
	}
	return r.Bindings.Binding(name)
}

// reportBinding records an event on a Binding for each condition that turned False. Grove owns the Binding's status, so the reported
// conditions are kept only in memory, and the events are sent again after an operator restart.
func (r *Reconciler) reportBinding(binding *grovev1alpha1.ClusterTopology, status grovev1alpha1.ClusterTopologyStatus) {
	binding.Status = r.reported[binding.Name]
	r.announce(binding, status)
	if r.reported == nil {
		r.reported = map[string]grovev1alpha1.ClusterTopologyStatus{}
	}
	r.reported[binding.Name] = status
}

// reportUnread handles a name for which no ClusterTopology exists: the Binding of this name is gone, or cannot be read as a
// ClusterTopology.
func (r *Reconciler) reportUnread(name string) {
	binding, why := r.bindingOf(name)
	if binding == nil || why == "" {
		delete(r.reported, name)
		return
	}
	status := grovev1alpha1.ClusterTopologyStatus{}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: readable, Status: metav1.ConditionFalse, Reason: grovev1alpha1.ReasonBindingInvalid,
		Message: limit.Text(why+"; until then it counts as absent", limit.Condition),
	})
	r.reportBinding(binding, status)
}

// compareBinding compares a ClusterTopology with the Binding of the same name, and reports differences on both objects. The ClusterTopology
// takes precedence.
func (r *Reconciler) compareBinding(ct *grovev1alpha1.ClusterTopology, status *grovev1alpha1.ClusterTopologyStatus) {
	binding, why := r.bindingOf(ct.Name)
	if binding == nil || why != "" {
		meta.RemoveStatusCondition(&status.Conditions, grovev1alpha1.ConditionBindingInSync)
		delete(r.reported, ct.Name)
		return
	}
	c := metav1.Condition{
		Type: grovev1alpha1.ConditionBindingInSync, Status: metav1.ConditionTrue, ObservedGeneration: ct.Generation,
		Reason: grovev1alpha1.ReasonTopologiesAgree, Message: "the ClusterTopologyBinding of this name has the same levels",
	}
	if differ := topologybinding.Differ(ct, binding); differ != "" {
		c.Status, c.Reason = metav1.ConditionFalse, grovev1alpha1.ReasonTopologiesDiffer
		c.Message = limit.Text(differ+"; the ClusterTopology counts: correct one of them, or delete it", limit.Condition)
	}
	meta.SetStatusCondition(&status.Conditions, c)
	r.reportBinding(binding, grovev1alpha1.ClusterTopologyStatus{Conditions: []metav1.Condition{c}})
}
