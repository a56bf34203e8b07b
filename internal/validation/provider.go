// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// annotationWorkload chooses what makes the pods of multinode services.
const annotationWorkload = "trellis.dev/workload"

// provider checks the annotations that choose it.
func provider(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	path := field.NewPath("metadata", "annotations")
	errs := oneOf(path, dgd.Annotations, graph.AnnotationProvider, graph.ProviderNames...)
	errs = append(errs, oneOf(path, dgd.Annotations, graph.AnnotationFormerProvider, graph.ProviderNames...)...)
	errs = append(errs, oneOf(path, dgd.Annotations, graph.AnnotationWorkloadProvider, graph.WorkloadProviderGrove, graph.WorkloadProviderComponent)...)
	chosen, by := graph.NamedProvider(dgd.Annotations)
	if former := dgd.Annotations[graph.AnnotationFormerProvider]; former != "" && former != chosen {
		errs = append(errs, badValue(field.ErrorTypeForbidden, path.Key(graph.AnnotationFormerProvider), former,
			"is the former name of "+graph.AnnotationProvider+", which says "+short(chosen)+"; remove this annotation"))
	}
	errs = append(errs, oneOf(path, dgd.Annotations, annotationWorkload, "Pods", "LeaderWorkerSet")...)
	if dgd.Annotations[annotationWorkload] == "LeaderWorkerSet" && (chosen == "PodGroup" || chosen == "Grove") {
		errs = append(errs, badValue(field.ErrorTypeForbidden, path.Key(annotationWorkload), "LeaderWorkerSet",
			"LeaderWorkerSets can be placed by Gates and KAI, not by "+chosen+"; choose one of them, or remove the annotation"))
	}
	if chosen == graph.ProviderGrove && dgd.Annotations[graph.AnnotationEnableGrove] == "false" {
		errs = append(errs, badValue(field.ErrorTypeForbidden, path.Key(by), dgd.Annotations[by],
			graph.AnnotationEnableGrove+` "false" rules Grove out; remove one of the two annotations`))
	}
	return errs
}

// providerImmutable bars choosing another provider or workload while there are pods made for this one. It looks at the annotations and at the
// status that the object itself carries, so that it needs no look at the cluster.
func providerImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	errs := sameWhilePods(old, graph.AnnotationProvider, "provider", providerIn(updated), providerIn(old))
	return append(errs, sameWhilePods(old, annotationWorkload, "workload", updated.Annotations[annotationWorkload], old.Annotations[annotationWorkload])...)
}

// providerIn is the provider that the annotations name, whichever of them does.
func providerIn(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	name, _ := graph.NamedProvider(dgd.Annotations)
	return name
}

func sameWhilePods(old *nvidiav1beta1.DynamoGraphDeployment, annotation, what, now, before string) field.ErrorList {
	if now == before {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(old.Status.Components)) {
		if service := old.Status.Components[name]; service.Replicas > 0 {
			return one(field.Forbidden(annotationPath(annotation), fmt.Sprintf(
				"the %s is immutable while the deployment has pods (service %s has %d replicas); scale all services to 0 first, or delete and recreate the DynamoGraphDeployment",
				what, short(name), service.Replicas)))
		}
	}
	return nil
}
