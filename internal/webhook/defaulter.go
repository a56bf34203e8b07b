// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/validation"
)

var _ admission.Defaulter[*unstructured.Unstructured] = deploymentDefaulter{}

// deploymentDefaulter sets missing replicas of components to 1, and the replicas of roles to the numbers that follow from nodeCount. On an
// update, it restores replicas that scaling adapters own, an omitted minAvailable of 1, and the annotations that store fields which only
// the other API version has.
//
// It works on the unstructured object instead of Go types. Go types would add zero values of pod specs (resources: {}, a null list), and
// would fail on a malformed quantity before the schema can name the field. With the unstructured object, the patch contains only the
// defaults.
type deploymentDefaulter struct {
	// scalingUsers may write replicas that scaling adapters own.
	scalingUsers []string
}

// Default implements admission.Defaulter.
func (d deploymentDefaulter) Default(ctx context.Context, dgd *unstructured.Unstructured) error {
	if dgd.GetDeletionTimestamp() != nil {
		return nil
	}
	for _, component := range componentsOf(dgd) {
		if component["replicas"] == nil {
			component["replicas"] = int64(1)
		}
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	old := oldComponents(req)
	for name, component := range componentsOf(dgd) {
		defaultRoles(component, old[name])
	}
	keepMemory(req, dgd)
	keepMinAvailable(old, dgd)
	warn(ctx, validation.Bounded(keepReplicas(req, d.scalingUsers, dgd), dgd.GroupVersionKind().Version))
	return nil
}

// keepMemory restores the annotations that store fields which only the other API version has, because kubectl replace drops these
// annotations. To remove these fields, a user can write the deployment in the other version.
func keepMemory(req admission.Request, updated *unstructured.Unstructured) {
	old := &unstructured.Unstructured{}
	if len(req.OldObject.Raw) == 0 || old.UnmarshalJSON(req.OldObject.Raw) != nil {
		return
	}
	if nvidiav1alpha1.MemoryProblem(old.GetAnnotations(), old.GroupVersionKind().Version) != "" {
		return // unreadable annotations may be removed
	}
	annotations := updated.GetAnnotations()
	dropped := map[string]string{}
	for _, key := range []string{nvidiav1alpha1.AnnotationSpecMemory, nvidiav1alpha1.AnnotationStatusMemory} {
		was, had := old.GetAnnotations()[key]
		if _, has := annotations[key]; had && !has {
			dropped[key] = was
		}
	}
	if len(dropped) == 0 {
		return
	}
	if was, err := validation.FromJSON(req.OldObject.Raw); err != nil || was.Unreadable() {
		return // annotations whose JSON is not a deployment may be removed as well
	}
	maps.Copy(dropped, annotations)
	updated.SetAnnotations(dropped)
}

// keepMinAvailable restores a minAvailable of 1 that an update omits. 1 is the default, and minAvailable is immutable.
func keepMinAvailable(before map[string]map[string]any, updated *unstructured.Unstructured) {
	for name, component := range componentsOf(updated) {
		if was := before[name]["minAvailable"]; component["minAvailable"] == nil && was == int64(1) {
			component["minAvailable"] = was
		}
	}
}

// oldComponents returns the components before an update, by name; none on create.
func oldComponents(req admission.Request) map[string]map[string]any {
	old := &unstructured.Unstructured{}
	if len(req.OldObject.Raw) == 0 || old.UnmarshalJSON(req.OldObject.Raw) != nil {
		return nil
	}
	return componentsOf(old)
}

// defaultRoles sets missing replicas of a component's roles. It also corrects the workers' replicas if they follow from the nodeCount
// before the update, so that a user can change nodeCount alone.
func defaultRoles(component, before map[string]any) {
	nodes, was := nodesOf(component), nodesOf(before)
	list, _ := component["roles"].([]any)
	if nodes < 2 {
		return // not multinode, or invalid
	}
	for _, value := range list {
		role := asMap(value)
		switch replicas := role["replicas"]; {
		case role == nil:
		case role["name"] == nvidiav1beta1.RoleLeader && replicas == nil:
			role["replicas"] = int64(1)
		case role["name"] == nvidiav1beta1.RoleWorker && (replicas == nil || was >= 2 && replicas == was-1):
			role["replicas"] = nodes - 1
		}
	}
}

// nodesOf returns the nodeCount of a component as written, or the API's default; 0 if the component is not multinode.
func nodesOf(component map[string]any) int64 {
	multinode, ok := component["multinode"].(map[string]any)
	if !ok {
		return 0
	}
	if multinode["nodeCount"] == nil {
		return 2 // the default of the API
	}
	nodes, _ := multinode["nodeCount"].(int64)
	return nodes
}

func namesOf(dgd *unstructured.Unstructured) []string {
	var names []string
	list, _ := asMap(dgd.Object["spec"])["components"].([]any)
	for _, value := range list {
		name, _ := asMap(value)["name"].(string)
		names = append(names, name)
	}
	return names
}

// warner adds warnings to the response of a handler, because a Defaulter cannot return warnings.
type warner struct{ admission.Handler }

type warningsKey struct{}

// Handle implements admission.Handler.
func (w warner) Handle(ctx context.Context, req admission.Request) admission.Response {
	var said []string
	response := w.Handler.Handle(context.WithValue(ctx, warningsKey{}, &said), req)
	return response.WithWarnings(said...)
}

// warn adds warnings to the response of the request.
func warn(ctx context.Context, lines []string) {
	if said, ok := ctx.Value(warningsKey{}).(*[]string); ok {
		*said = append(*said, lines...)
	}
}
