// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Names by which Dynamo's programs know a generation of workers.
const (
	// LabelWorkerHash on the pods of workers is their generation.
	LabelWorkerHash = "nvidia.com/dynamo-worker-hash"
	// AnnotationWorkerHash on a deployment is the generation that serves: the last one that was rolled out.
	AnnotationWorkerHash = "nvidia.com/current-worker-hash-v2"

	// envWorkerSuffix is what a worker appends to its Dynamo namespace, after a hyphen.
	envWorkerSuffix = "DYN_NAMESPACE_WORKER_SUFFIX"
)

// AnnotationGenerations on a deployment is "false" where its workers are to be in one Dynamo namespace whatever their generation. It takes
// effect with the next change of a worker.
const AnnotationGenerations = "trellis.dev/worker-generations"

// GenerationOf is the generation of a group's pods, or "" where they have none: they are no workers, or were made without.
func GenerationOf(sg *trellisv1alpha1.ScalingGroup) string {
	return generationOf(sg.Spec.Roles)
}

// DiscoversThroughKubernetes reports whether pods of the template find each other by the API server, where they publish what they are.
func DiscoversThroughKubernetes(template *corev1.PodTemplateSpec) bool {
	return template.Labels[LabelDiscoveryBackend] == discoveryKubernetes
}

func (s *Component) generation() string { return generationOf(s.Roles) }

func generationOf(roles []trellisv1alpha1.Role) string {
	if len(roles) == 0 {
		return ""
	}
	template := &roles[0].Template
	generation := template.Labels[LabelWorkerHash]
	if generation == "" || mainEnv(&template.Spec, envWorkerSuffix) != generation { // the user's own label
		return ""
	}
	return generation
}

// InGenerations reports whether a change of one worker makes a new generation of all.
func InGenerations(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return dgd.Annotations[AnnotationGenerations] != "false"
}

// rendering is a component on its way to its pods: what they are made from, and what of them is stored.
type rendering struct {
	*templater
	nodes  int32
	input  *trellisv1alpha1.TemplateInput
	stored *trellisv1alpha1.ScalingGroup
}

// replicaPods are the pods of one replica.
type replicaPods struct {
	roles    []trellisv1alpha1.Role
	revision string
	// input that they were made from; nil: that of the component.
	input *trellisv1alpha1.TemplateInput
	// adopted: the roles are stored ones that cannot be compared with what the deployment says now.
	adopted bool
	errs    []error
}

// keeps: the stored roles are those of the component.
func (r *rendering) keeps() bool { return keepsRoles(r.stored, r.input) }

// worker reports whether the component belongs to the generation.
func (r *rendering) worker() bool { return isWorker(r.componentType) }

// at renders the component as of a generation.
func (r *rendering) at(generation string) replicaPods {
	t := *r.templater
	t.errs, t.generation = nil, generation
	roles := t.roles(r.nodes)
	return replicaPods{roles: roles, revision: revision(roles), errs: t.errs}
}

// kept are the stored roles.
func (r *rendering) kept() replicaPods {
	return replicaPods{roles: r.stored.Spec.Roles, revision: r.stored.Spec.Revision, adopted: adopts(r.stored)}
}

// changed: the component's pods become others, whatever its generation.
func (r *rendering) changed() bool {
	return r.stored != nil && !r.keeps() && r.at(GenerationOf(r.stored)).revision != r.stored.Spec.Revision
}

// render decides what the pods of all components are. Workers change together: while none of them changes, all keep the generation that
// they have, and with it their roles, also none at all. Otherwise the generation is a hash of all of them, the same in every version of
// the API and with every number of replicas. Groups that were written one after the other, and not all of them yet, so get the same one.
//
// The generation is the one that the deployment asks for, also where the workers return to an earlier one.
func render(components []*rendering, generations bool, back *Rollback, input string) (pods map[string]replicaPods, generation string,
	rolledBack bool) {
	out := map[string]replicaPods{}
	generation = workerGeneration(components, generations)
	if back.asked(input) {
		generation = back.Aborted
	}
	to := back.target(generation, components)
	for _, r := range components {
		wanted := ""
		if r.worker() {
			wanted = generation
		}
		if to != nil && r.worker() {
			out[r.name] = to.pods(r.name)
		} else if r.keeps() && (!r.worker() || GenerationOf(r.stored) == wanted) {
			out[r.name] = r.kept()
		} else {
			out[r.name] = r.at(wanted)
		}
	}
	return out, generation, to != nil
}

func workerGeneration(components []*rendering, generations bool) string {
	stored, changed := sets.New[string](), false
	for _, r := range components {
		if r.worker() && r.stored != nil {
			stored.Insert(GenerationOf(r.stored))
			changed = changed || r.changed()
		}
	}
	if stored.Len() == 1 && !changed {
		return stored.UnsortedList()[0]
	}
	if !generations {
		return ""
	}
	return hashOfWorkers(components)
}

// hashOfWorkers identifies the pods of all workers.
func hashOfWorkers(components []*rendering) string {
	var all strings.Builder
	for _, r := range components {
		if r.worker() {
			all.WriteString(r.name + " " + r.at("").revision + "\n")
		}
	}
	return shortHash(all.String())
}

// generationEnv keeps a worker apart from those of other generations.
func (t *templater) generationEnv() []corev1.EnvVar {
	if t.generation == "" {
		return nil
	}
	return []corev1.EnvVar{{Name: envWorkerSuffix, Value: t.generation}}
}
