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

// Names with which Dynamo's programs identify a generation of workers.
const (
	// LabelWorkerHash on the pods of workers holds the generation of the workers.
	LabelWorkerHash = "nvidia.com/dynamo-worker-hash"
	// AnnotationWorkerHash on a deployment holds the serving generation, which is the last generation that was rolled out.
	AnnotationWorkerHash = "nvidia.com/current-worker-hash-v2"

	// envWorkerSuffix is the suffix that a worker appends to its Dynamo namespace, after a hyphen.
	envWorkerSuffix = "DYN_NAMESPACE_WORKER_SUFFIX"
)

// AnnotationGenerations with the value "false" on a deployment keeps the deployment's workers in one Dynamo namespace across generations. A
// change of the annotation takes effect with the next change of a worker.
const AnnotationGenerations = "trellis.dev/worker-generations"

// GenerationOf returns the generation of a scaling group's pods; "" for pods that are not workers, and for workers without generations.
func GenerationOf(sg *trellisv1alpha1.ScalingGroup) string {
	return generationOf(sg.Spec.Roles)
}

// DiscoversThroughKubernetes reports whether pods of the template discover each other through the API server.
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

// InGenerations reports whether a change of one worker starts a new generation of all workers.
func InGenerations(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return dgd.Annotations[AnnotationGenerations] != "false"
}

// rendering is a component before its pods are rendered: the input for its pods, and its stored scaling group.
type rendering struct {
	*templater
	nodes  int32
	input  *trellisv1alpha1.TemplateInput
	stored *trellisv1alpha1.ScalingGroup
}

// replicaPods are the roles of one replica's pods, and their origin.
type replicaPods struct {
	roles    []trellisv1alpha1.Role
	revision string
	// input is the input from which the pods were made; nil for the component's current input.
	input *trellisv1alpha1.TemplateInput
	// adopted: the roles are stored roles, and their input cannot be compared with the deployment's input.
	adopted bool
	errs    []error
}

// keeps reports whether the component keeps its stored roles.
func (r *rendering) keeps() bool { return keepsRoles(r.stored, r.input) }

// worker reports whether the component is a worker. Only workers belong to a generation.
func (r *rendering) worker() bool { return isWorker(r.componentType) }

// at renders the component's pods as members of a generation.
func (r *rendering) at(generation string) replicaPods {
	t := *r.templater
	t.errs, t.generation = nil, generation
	roles := t.roles(r.nodes)
	return replicaPods{roles: roles, revision: revision(roles), errs: t.errs}
}

// kept returns the stored roles.
func (r *rendering) kept() replicaPods {
	return replicaPods{roles: r.stored.Spec.Roles, revision: r.stored.Spec.Revision, adopted: adopts(r.stored)}
}

// changed reports whether the component's pods change for a reason other than a new generation.
func (r *rendering) changed() bool {
	return r.stored != nil && !r.keeps() && r.at(GenerationOf(r.stored)).revision != r.stored.Spec.Revision
}

// render chooses the pods of all components: stored roles, or newly rendered roles. Workers change together. While no worker changes, all
// workers keep their generation, which may be "", and their stored roles. A change of any worker starts a new generation. The name of the
// generation is a hash of the pods of all workers. The hash does not depend on the API version or the number of replicas, so all workers
// get the same generation, even if their scaling groups are written by different reconciles.
//
// The returned generation is the generation that the deployment requests, even while the workers roll back to an earlier generation.
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

// hashOfWorkers returns a hash of the pods of all workers.
func hashOfWorkers(components []*rendering) string {
	var all strings.Builder
	for _, r := range components {
		if r.worker() {
			all.WriteString(r.name + " " + r.at("").revision + "\n")
		}
	}
	return shortHash(all.String())
}

// generationEnv returns the environment variable that separates, in Dynamo, a worker from the workers of other generations.
func (t *templater) generationEnv() []corev1.EnvVar {
	if t.generation == "" {
		return nil
	}
	return []corev1.EnvVar{{Name: envWorkerSuffix, Value: t.generation}}
}
