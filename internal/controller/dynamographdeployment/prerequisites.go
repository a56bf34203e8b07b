// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

// IndexByClaim indexes deployments by the volume claims that they list or that their pods mount.
const IndexByClaim = "trellis.claim"

// prerequisites are the objects and APIs that a deployment needs but Trellis does not create.
type prerequisites struct {
	// any: the deployment has prerequisites, so the condition is reported.
	any bool
	// missing lists the missing prerequisites, one sentence each.
	missing []string
	// noAPI are the kinds that the cluster does not serve.
	noAPI map[string]bool
	// access holds the ServiceAccounts and Roles that Trellis did not create.
	access access
}

// lacks reports whether the cluster does not serve the object's kind. The object is then reported as missing and not applied.
func (o observed) lacks(object client.Object) bool {
	return o.prerequisites.noAPI[object.GetObjectKind().GroupVersionKind().Kind]
}

// lookForPrerequisites checks the claims that pods mount, the third-party kinds of the graph's objects, and the graph's ServiceAccounts and
// Roles. It skips Secrets and ConfigMaps: the operator does not read Secrets and ConfigMaps of other clients.
func (r *Reconciler) lookForPrerequisites(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment,
	wanted *render.Graph) (prerequisites, error) {
	p := prerequisites{noAPI: map[string]bool{}}
	needed := wanted.Claims().Needed
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		p.any = true
		claim, err := r.claim(ctx, types.NamespacedName{Namespace: dgd.Namespace, Name: name})
		switch {
		case err != nil:
			return p, err
		case claim == nil:
			p.missing = append(p.missing, fmt.Sprintf("PersistentVolumeClaim %s does not exist, and pods of %s wait for it; create it, or set "+
				"create: true in spec.pvcs",
				name, few(needed[name])))
		case claim.DeletionTimestamp != nil:
			p.missing = append(p.missing, fmt.Sprintf("PersistentVolumeClaim %s is being deleted, and new pods of %s wait for it; create it again",
				name, few(needed[name])))
		}
	}
	for _, object := range slices.Concat(wanted.Owned(), wanted.ReplicaDomains()) {
		if _, foreign := object.(*unstructured.Unstructured); !foreign {
			continue
		}
		p.any = true
		gvk := object.GetObjectKind().GroupVersionKind()
		_, err := r.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		switch {
		case meta.IsNoMatchError(err):
			p.noAPI[gvk.Kind] = true
			p.missing = append(p.missing, fmt.Sprintf("%s %s cannot be created, because the cluster does not serve %s; install its definition",
				gvk.Kind, object.GetName(), gvk.GroupVersion()))
		case err != nil:
			return p, fmt.Errorf("looking for %s: %w", gvk, err)
		}
	}
	var err error
	p.access, err = r.lookForAccess(ctx, dgd, wanted)
	p.any = p.any || len(p.access.missing) > 0
	p.missing = append(p.missing, p.access.missing...)
	return p, err
}

// few lists at most three names.
func few(names []string) string { return limit.Join(names, len(names), 3, ", ") }

// prerequisitesCondition reports missing prerequisites; nil for a deployment without prerequisites.
func prerequisitesCondition(o observed) *condition {
	const kind = nvidiav1beta1.ConditionPrerequisitesMet
	switch {
	case len(o.prerequisites.missing) > 0:
		return no(kind, nvidiav1beta1.ReasonPrerequisitesMissing, strings.Join(o.prerequisites.missing, ". "))
	case o.prerequisites.any:
		return yes(kind, nvidiav1beta1.ReasonAllPrerequisitesMet, "All volume claims that pods mount exist, and all kinds of objects are served")
	}
	return nil
}

// whileMissing adds the missing prerequisites to a message about pods that are not ready, because the pods may wait for them.
func whileMissing(o observed, message string) string {
	if len(o.prerequisites.missing) == 0 {
		return message
	}
	return message + ". Missing: " + strings.Join(o.prerequisites.missing, ". ")
}

// claimNames lists the claims in the deployment's pvcs, and the claims that its components mount.
func claimNames(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	names := map[string]bool{}
	if alpha, err := nvidiav1alpha1.AlphaOnlyOf(dgd); err == nil { // otherwise admission refuses the deployment
		for i := range alpha.PVCs {
			names[ptr.Deref(alpha.PVCs[i].Name, "")] = true
		}
	}
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		if c.CompilationCache != nil {
			names[c.CompilationCache.PVCName] = true
		}
		if c.PodTemplate == nil {
			continue
		}
		for _, volume := range c.PodTemplate.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				names[volume.PersistentVolumeClaim.ClaimName] = true
			}
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// usersOfClaim returns the deployments that list or mount a volume claim.
func (r *Reconciler) usersOfClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	return r.deploymentsBy(ctx, IndexByClaim, claim.GetName(), client.InNamespace(claim.GetNamespace()))
}

// usersOfPools returns the deployments with an endpoint picker, which need the CustomResourceDefinition of InferencePools.
func (r *Reconciler) usersOfPools(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.deploymentsBy(ctx, IndexByPicker, "true")
}

// IndexByPicker indexes deployments with an endpoint picker.
const IndexByPicker = "trellis.picker"

func hasPicker(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	for i := range dgd.Spec.Components {
		if dgd.Spec.Components[i].Type == nvidiav1beta1.ComponentTypeEPP {
			return []string{"true"}
		}
	}
	return nil
}

func (r *Reconciler) deploymentsBy(ctx context.Context, index, value string, options ...client.ListOption) []reconcile.Request {
	return r.deployments(ctx, append(options, client.MatchingFields{index: value})...)
}

func (r *Reconciler) deployments(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	found := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := r.Client.List(ctx, found, options...); err != nil {
		log.FromContext(ctx).Error(err, "listing deployments", "options", options)
		return nil
	}
	out := make([]reconcile.Request, 0, len(found.Items))
	for i := range found.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
	}
	return out
}

// aboutPlaces adds the NVLink cliques, and the resources that the scheduler did not count, to a message of the condition Placed.
func aboutPlaces(o observed, message string) string {
	message += aboutCliques(o)
	if components := slices.Sorted(maps.Keys(o.result.UncountedClaims)); len(components) > 0 {
		message += fmt.Sprintf(". Resource claims of %s are not counted (%s): the kube-scheduler decides whether a node has their devices",
			few(components), limit.Text(o.result.UncountedClaims[components[0]], maxResourceName))
	}
	if components := slices.Sorted(maps.Keys(o.result.UncountedVolumes)); len(components) > 0 {
		message += fmt.Sprintf(". Volumes of %s are not counted (not known: %s): the operator could not list claims, volumes and what provides "+
			"them; check its ClusterRole", few(components), limit.Text(o.result.UncountedVolumes[components[0]], maxResourceName))
	}
	for i, u := range o.result.Uncounted {
		if i == maxUncounted {
			return message + fmt.Sprintf(". %d more resources are not counted", len(o.result.Uncounted)-i)
		}
		message += fmt.Sprintf(". %s of %s is not counted on nodes where a DeviceClass serves it: the kube-scheduler decides whether "+
			"they have the devices",
			limit.Text(u.Resource, maxResourceName), few(u.Components))
	}
	return message
}

// maxUncounted is the maximum number of uncounted resources in a message, and maxResourceName the maximum length of a resource name in
// bytes.
const maxUncounted, maxResourceName = 2, 80
