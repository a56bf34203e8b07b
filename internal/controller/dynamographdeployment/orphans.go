// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Orphans are the children of an earlier deployment of the same name that was deleted with --cascade=orphan. Orphans with the name of a
// wanted child are adopted and applied. Other orphans stay, and the condition OrphansAdopted has the command that deletes them. Volume
// claims are not adopted, so that their data outlives the deployment.

// isOrphan reports whether Trellis made an object for a deployment of this name, and the object has no controller.
func isOrphan(object client.Object, dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	if !adoption.Orphaned(object) || object.GetLabels()[render.LabelGraph] != render.LabelValue(dgd.Name) {
		return false
	}
	_, group := object.(*trellisv1alpha1.ScalingGroup)
	return group || isOurs(object) || object.GetAnnotations()[render.AnnotationApplied] != ""
}

// orphansAmong returns the orphans among the objects, with their GroupVersionKinds set.
func (r *Reconciler) orphansAmong(objects []client.Object, dgd *nvidiav1beta1.DynamoGraphDeployment) ([]client.Object, error) {
	var out []client.Object
	for _, object := range objects {
		if !isOrphan(object, dgd) {
			continue
		}
		kind, err := r.Client.GroupVersionKindFor(object)
		if err != nil {
			return nil, fmt.Errorf("finding the kind of %T %s: %w", object, object.GetName(), err)
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		out = append(out, object)
	}
	return out, nil
}

func (r *Reconciler) adopter(dgd *nvidiav1beta1.DynamoGraphDeployment) adoption.Adopter {
	return adoption.Adopter{Client: r.Client, Live: r.Live, Owner: dgd, Kind: nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment")}
}

// adoptGroups adopts scaling groups without changing their specs. The next reconcile derives the wanted state from the groups, for example
// from their revisions and the provider of running pods. done reports whether there were groups to adopt. The events of the adoption
// trigger the next reconcile.
func (r *Reconciler) adoptGroups(ctx context.Context, o observed, wanted *render.Graph) (done bool, err error) {
	groups := adoptable(o, wanted)
	if len(groups) == 0 {
		return false, nil
	}
	adopter := r.adopter(o.dgd)
	if current, err := adopter.Current(ctx); err != nil || !current {
		return true, err
	}
	if err := r.adoptProviders(ctx, adopter, groups); err != nil { // before the groups: while these are orphans, it is retried
		return true, err
	}
	failures := make([]error, 0, len(groups))
	for _, sg := range groups {
		log.FromContext(ctx).Info("adopting a scaling group", "group", sg.Name)
		failures = append(failures, adopter.Adopt(ctx, sg))
	}
	return true, errors.Join(failures...)
}

// adoptProviders adopts the objects that the groups' providers made for the graph.
func (r *Reconciler) adoptProviders(ctx context.Context, adopter adoption.Adopter, groups []*trellisv1alpha1.ScalingGroup) error {
	names := map[string]bool{}
	for _, sg := range groups {
		names[sg.Spec.Provider] = true
	}
	for name := range names {
		if one, ok := r.Providers.Get(name).(provider.Adopter); ok && r.Providers.State(ctx, name).Ready {
			if err := one.Adopt(ctx, adopter); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayApplyOrphan reports whether to adopt an orphan with the name of a child by applying the child. It returns false for scaling groups,
// because adoptGroups adopts them.
func (r *Reconciler) mayApplyOrphan(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, child, existing client.Object) (bool,
	error) {
	if wanted, ok := child.(*trellisv1alpha1.ScalingGroup); ok {
		if why := whyNotAdopted(wanted, existing.(*trellisv1alpha1.ScalingGroup)); why != "" {
			return false, orphanOf(child, why)
		}
		return false, nil
	}
	if current, err := r.adopter(dgd).Current(ctx); err != nil || !current {
		return false, err
	}
	// The apply names the resourceVersion read here, so it is refused if another controller takes over the object meanwhile.
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(existing), existing); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return isOrphan(existing, dgd), nil
}

// deploymentsOfOrphan returns the deployments that may adopt or report an object without a controller. An object with a controller is
// ignored, because its events trigger a reconcile of its owner.
func (r *Reconciler) deploymentsOfOrphan(ctx context.Context, object client.Object) []reconcile.Request {
	label := object.GetLabels()[render.LabelGraph]
	if label == "" || metav1.GetControllerOfNoCopy(object) != nil {
		return nil
	}
	dgds := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := r.Client.List(ctx, dgds, client.InNamespace(object.GetNamespace())); err != nil {
		log.FromContext(ctx).Error(err, "listing the deployments of a namespace", "namespace", object.GetNamespace())
		return nil
	}
	var out []reconcile.Request
	for i := range dgds.Items {
		if render.LabelValue(dgds.Items[i].Name) == label {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&dgds.Items[i])})
		}
	}
	return out
}

// orphan is the error about an orphan that is not adopted. why is the reason.
type orphan struct {
	kind schema.GroupVersionKind
	name string
	why  string
}

func orphanOf(object client.Object, why string) *orphan {
	return &orphan{object.GetObjectKind().GroupVersionKind(), object.GetName(), why}
}

// Error implements error.
func (o *orphan) Error() string {
	return fmt.Sprintf("%s %s of an earlier deployment of this name cannot be adopted: %s; the condition %s has the command that deletes it",
		o.kind.Kind, o.name, o.why, nvidiav1beta1.ConditionOrphansAdopted)
}

// resource names the object in the syntax of kubectl.
func (o *orphan) resource() string {
	plural, _ := meta.UnsafeGuessKindToResource(o.kind)
	return plural.GroupResource().String() + "/" + o.name
}
