// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Annotations that choose what gets the gangs onto nodes.
const (
	annotationEngine      = "trellis.dev/engine"
	annotationWorkload    = "trellis.dev/workload"
	annotationEnableGrove = "nvidia.com/enable-grove"
)

// engine checks the annotations that choose it.
func engine(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	path := field.NewPath("metadata", "annotations")
	errs := oneOf(path, dgd.Annotations, annotationEngine, "auto", "Gates", "PodGroup", "KAI", "Grove")
	errs = append(errs, oneOf(path, dgd.Annotations, annotationWorkload, "Pods", "LeaderWorkerSet")...)
	if chosen := dgd.Annotations[annotationEngine]; dgd.Annotations[annotationWorkload] == "LeaderWorkerSet" && (chosen == "PodGroup" || chosen == "Grove") {
		errs = append(errs, badValue(field.ErrorTypeForbidden, path.Key(annotationWorkload), "LeaderWorkerSet",
			"LeaderWorkerSets can be placed by Gates and KAI, not by "+chosen+"; choose one of them, or remove the annotation"))
	}
	if dgd.Annotations[annotationEngine] == "Grove" && dgd.Annotations[annotationEnableGrove] == "false" {
		errs = append(errs, badValue(field.ErrorTypeForbidden, path.Key(annotationEngine), "Grove",
			annotationEnableGrove+` "false" rules Grove out; remove one of the two annotations`))
	}
	return errs
}

// engineImmutable bars choosing another engine or workload while there are pods made for this one. It looks at the annotations and at the
// status that the object itself carries, so that it needs no look at the cluster.
func engineImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, choice := range []struct{ annotation, what string }{{annotationEngine, "engine"}, {annotationWorkload, "workload"}} {
		if updated.Annotations[choice.annotation] == old.Annotations[choice.annotation] {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(old.Status.Components)) {
			if service := old.Status.Components[name]; service.Replicas > 0 {
				errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(choice.annotation), fmt.Sprintf(
					"the %s is immutable while the deployment has pods (service %s has %d replicas); scale all services to 0 first, or delete and recreate the DynamoGraphDeployment",
					choice.what, short(name), service.Replicas)))
				break
			}
		}
	}
	return errs
}
