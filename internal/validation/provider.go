// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// provider checks the annotations that choose the provider.
func provider(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	path := field.NewPath("metadata", "annotations")
	errs := oneOf(path, dgd.Annotations, render.AnnotationProvider, specs.Names()...)
	errs = append(errs, oneOf(path, dgd.Annotations, render.AnnotationFormerProvider, specs.Names()...)...)
	errs = append(errs, oneOf(path, dgd.Annotations, specs.AnnotationWorkloadProvider, workloadProviders()...)...)
	chosen, by := render.NamedProvider(dgd.Annotations)
	if former := dgd.Annotations[render.AnnotationFormerProvider]; former != "" && former != chosen {
		errs = append(errs, badValue(field.ErrorTypeForbidden, path.Key(render.AnnotationFormerProvider), former,
			"is the former name of "+render.AnnotationProvider+", which is set to "+short(chosen)+"; remove this annotation"))
	}
	errs = append(errs, oneOf(path, dgd.Annotations, render.AnnotationWorkload, specs.Makers...)...)
	if dgd.Annotations[render.AnnotationWorkload] == specs.LeaderWorkerSet && slices.Contains(specs.Names(), chosen) &&
		chosen != specs.Auto && !specs.Named(chosen).TakesSets {
		errs = append(errs, badValue(field.ErrorTypeForbidden, path.Key(render.AnnotationWorkload), specs.LeaderWorkerSet,
			"LeaderWorkerSets can be placed by "+strings.Join(specs.TakingSets(), " and ")+", not by "+chosen+
				"; choose one of them, or remove the annotation"))
	}
	for _, out := range specs.Named(chosen).RuledOutBy {
		if out.Key != specs.AnnotationWorkloadProvider && dgd.Annotations[out.Key] == out.Value {
			errs = append(errs, badValue(field.ErrorTypeForbidden, path.Key(by), dgd.Annotations[by],
				fmt.Sprintf("%s %q rules %s out; remove one of the two annotations", out.Key, out.Value, chosen)))
		}
	}
	return errs
}

// workloadProviders lists the values that Trellis accepts for the annotation of Dynamo's operator.
func workloadProviders() []string {
	var values []string
	for _, spec := range specs.All {
		if spec.WorkloadProvider != "" {
			values = append(values, spec.WorkloadProvider)
		}
		for _, out := range spec.RuledOutBy {
			if out.Key == specs.AnnotationWorkloadProvider {
				values = append(values, out.Value)
			}
		}
	}
	return values
}

// providerImmutable refuses a change of the provider or of the workload annotation while the deployment has pods. It reads only the
// deployment's annotations and status.
func providerImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	errs := sameWhilePods(old, render.AnnotationProvider, "provider", providerIn(updated), providerIn(old))
	return append(errs, sameWhilePods(old, render.AnnotationWorkload, "workload", updated.Annotations[render.AnnotationWorkload],
		old.Annotations[render.AnnotationWorkload])...)
}

// providerIn returns the provider that the deployment's annotations name; "" for none.
func providerIn(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	name, _ := render.NamedProvider(dgd.Annotations)
	return name
}

func sameWhilePods(old *nvidiav1beta1.DynamoGraphDeployment, annotation, what, now, before string) field.ErrorList {
	if now == before {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(old.Status.Components)) {
		if component := old.Status.Components[name]; component.Replicas > 0 {
			return one(field.Forbidden(annotationPath(annotation),
				"the %s is immutable while the deployment has pods (%s %s has %d replicas); scale all %s to 0 first, or delete and recreate the "+
					"DynamoGraphDeployment",
				what, field.WordComponent, short(name), component.Replicas, field.WordComponents))
		}
	}
	return nil
}
