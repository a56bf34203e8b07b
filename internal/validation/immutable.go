// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// immutabilityChecks are the rules that compare a deployment with its former state.
var immutabilityChecks = []struct {
	name string
	run  func(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList
}{
	{"deployment constraint is immutable", constraintImmutable},
	{"constraint in annotations is immutable", topologyAnnotationsImmutable},
	{"set of services is immutable", componentsImmutable},
	{"service constraint is immutable", componentConstraintsImmutable},
	{"single-node or multinode is immutable", nodeTopologyImmutable},
	{"backend framework is immutable", frameworkImmutable},
	{"power limit is immutable", powerImmutable},
	{"minAvailable is immutable", minAvailableImmutable},
	{"transfer policy is immutable", transferImmutable},
	{"type is immutable", typeKept},
	{"roles are kept", rolesKept},
}

// GraphUpdate returns the errors in an update of a deployment. It accepts updates that change neither spec nor annotations (only labels,
// finalizers or status), and every update of an object that is being deleted. Rules are ratcheted: an error that the old object already had
// does not block the update.
func GraphUpdate(now, before Written) field.ErrorList {
	updated, old := now.DynamoGraphDeployment, before.DynamoGraphDeployment
	if updated == nil || old == nil || updated.DeletionTimestamp != nil {
		return nil
	}
	errs := providerImmutable(updated, old)
	if maps.Equal(updated.Annotations, old.Annotations) && apiequality.Semantic.DeepEqual(updated.Spec, old.Spec) {
		return errs
	}
	for _, check := range immutabilityChecks {
		errs = append(errs, check.run(updated, old)...)
	}
	errs = append(errs, imagesKept(now, before)...)
	return append(errs, ratchet(append(Graph(now), ofChanges(now)...), append(Graph(before), ofChanges(before)...))...)
}

// ratchet drops the errors that the old object already had, in exactly the same words. It compares the v1alpha1 wording, which names
// components by key. The v1beta1 wording names them by index, and their order may change.
func ratchet(now, before field.ErrorList) field.ErrorList {
	known := sets.New[string]()
	for _, err := range before {
		known.Insert(err.In(nvidiav1alpha1.GroupVersion.Version))
	}
	var errs field.ErrorList
	for _, err := range now {
		if !known.Has(err.In(nvidiav1alpha1.GroupVersion.Version)) {
			errs = append(errs, err)
		}
	}
	return errs
}

func constraintImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	if apiequality.Semantic.DeepEqual(updated.Spec.TopologyConstraint, old.Spec.TopologyConstraint) {
		return nil
	}
	return one(immutableConstraint(constraintPath))
}

func componentConstraintsImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	forComponentsInBoth(updated, old, func(now, before component) {
		if !apiequality.Semantic.DeepEqual(now.TopologyConstraint, before.TopologyConstraint) {
			errs = append(errs, immutableConstraint(now.path.Child("topologyConstraint")))
		}
	})
	return errs
}

func immutableConstraint(path *field.Path) *field.Error {
	return field.Forbidden(path, "%s is immutable and cannot be added, removed, or changed after creation; "+
		"delete and recreate the DynamoGraphDeployment to change topology constraints", path)
}

// componentsImmutable refuses to add or remove components. It therefore also prevents removing a component and adding it again with another
// constraint.
func componentsImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	now, before := componentNames(updated), componentNames(old)
	var changes []field.Text
	for _, change := range []struct {
		what  string
		names sets.Set[string]
	}{{"added", now.Difference(before)}, {"removed", before.Difference(now)}} {
		if len(change.names) > 0 {
			changes = append(changes, field.Say("%s %s: [%s]", field.WordComponents, change.what, enumerate(sets.List(change.names), ", ",
				longestValue)))
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return one(field.Forbidden(componentsPath, "%[1]s topology is immutable and cannot be modified after creation: %[2]s"+
		"; delete and recreate the DynamoGraphDeployment, or set replicas to 0 to stop a %[1]s", field.WordComponent, field.Join(changes, ", ")))
}

func componentNames(dgd *nvidiav1beta1.DynamoGraphDeployment) sets.Set[string] {
	names := sets.New[string]()
	for i := range dgd.Spec.Components {
		names.Insert(dgd.Spec.Components[i].Name)
	}
	return names
}

// ProviderUpdate returns an error for each changed field that the deployment's provider cannot apply to existing objects. Grove fixes
// minAvailable of scaling groups and of cliques. In a clique, minAvailable is the number of pods of a replica, so Grove also fixes
// nodeCount. Other providers accept a changed nodeCount, and a minAvailable that is added later. preset is the operator's setting for the
// provider, as in [render.ChooseProvider].
func ProviderUpdate(updated, old *nvidiav1beta1.DynamoGraphDeployment, preset string) field.ErrorList {
	if updated == nil || old == nil || updated.DeletionTimestamp != nil {
		return nil
	}
	kept := render.ChooseProvider(old, preset).Name
	if !specs.Named(kept).FixedGangs || render.ChooseProvider(updated, preset).Name != kept {
		return nil
	}
	var errs field.ErrorList
	forComponentsInBoth(updated, old, func(now, before component) {
		if now.multinode() && before.multinode() && now.Multinode.NodeCount != before.Multinode.NodeCount {
			errs = append(errs, field.Forbidden(now.path.Child("multinode", "nodeCount"), fmt.Sprintf(
				"nodeCount is immutable under the provider %s, which cannot change minAvailable of a clique (%d to %d); "+
					"delete and recreate the DynamoGraphDeployment, or use another provider (annotation %s)",
				kept, before.Multinode.NodeCount, now.Multinode.NodeCount, render.AnnotationProvider)))
		}
		if err := minAvailableFixed(now, before, kept); err != nil {
			errs = append(errs, err)
		}
	})
	return errs
}

// nodeTopologyImmutable refuses a change between single-node and multinode, because the component's constraint would then pack other pods
// together. nodeCount may change.
func nodeTopologyImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	forComponentsInBoth(updated, old, func(now, before component) {
		if now.multinode() != before.multinode() {
			errs = append(errs, field.Forbidden(now.path.Child("multinode"),
				"%s cannot change node topology (between single-node and multi-node) after creation; "+
					"delete and recreate the DynamoGraphDeployment", now.path))
		}
	})
	return errs
}

func frameworkImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	if updated.Spec.BackendFramework == old.Spec.BackendFramework {
		return nil
	}
	return one(field.Forbidden(specPath.Child("backendFramework"),
		"spec.backendFramework is immutable and cannot be changed after creation; delete and recreate the DynamoGraphDeployment"))
}

func forComponentsInBoth(updated, old *nvidiav1beta1.DynamoGraphDeployment, compare func(now, before component)) {
	before := map[string]component{}
	for _, s := range componentsOf(old) {
		before[s.name] = s
	}
	for _, s := range componentsOf(updated) {
		if b, ok := before[s.name]; ok {
			compare(s, b)
		}
	}
}
