// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// MaxStoredGeneration limits the size of a stored generation, in bytes of JSON. The API server accepts objects of up to 1.5 MiB.
const MaxStoredGeneration = 1 << 20

// AnnotationWorkersInput on a ControllerRevision is the Graph.WorkersInput of the stored generation.
const AnnotationWorkersInput = "trellis.dev/workers-input"

// AnnotationRolledOut on a ControllerRevision is "true" if the stored generation was rolled out and served.
const AnnotationRolledOut = "trellis.dev/rolled-out"

// StoredGeneration is one generation of a deployment's workers, in the form that a ControllerRevision stores.
type StoredGeneration struct {
	// Generation is the name of the generation; "" for workers without generations.
	Generation string `json:"generation"`
	// Workers maps the names of components to their workers.
	Workers map[string]StoredWorker `json:"workers"`
}

// StoredWorker is the part of a ScalingGroup that determines the pods of one worker.
type StoredWorker struct {
	Roles    []trellisv1alpha1.Role         `json:"roles"`
	Revision string                         `json:"revision"`
	Input    *trellisv1alpha1.TemplateInput `json:"input,omitempty"`
}

// GenerationIn returns the generation in the workers' scaling groups. It returns false while a worker has no group, or the groups have
// different generations.
func GenerationIn(groups map[string]*trellisv1alpha1.ScalingGroup, workers []string) (*StoredGeneration, bool) {
	out := &StoredGeneration{Workers: map[string]StoredWorker{}}
	for i, name := range workers {
		sg := groups[name]
		if sg == nil || i > 0 && GenerationOf(sg) != out.Generation {
			return nil, false
		}
		out.Generation = GenerationOf(sg)
		out.Workers[name] = StoredWorker{sg.Spec.Roles, sg.Spec.Revision, sg.Spec.Input}
	}
	return out, len(workers) > 0
}

// Workers lists the names of the components that are workers.
func (g *Graph) Workers() []string {
	var names []string
	for i := range g.Components {
		if g.Components[i].Worker() {
			names = append(names, g.Components[i].Name)
		}
	}
	return names
}

// Stored returns the generation of the graph's workers, in the form that a ControllerRevision stores. It returns false if the graph has no
// workers, or if the workers have different generations.
func (g *Graph) Stored() (*StoredGeneration, bool) {
	groups := map[string]*trellisv1alpha1.ScalingGroup{}
	for i := range g.Components {
		s := &g.Components[i]
		groups[s.Name] = &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Roles: s.Roles, Revision: s.Revision,
			Input: s.Input}}
	}
	return GenerationIn(groups, g.Workers())
}

// holds reports whether the stored generation consists of exactly these workers.
func (s *StoredGeneration) holds(workers []string) bool {
	return slices.Equal(slices.Sorted(maps.Keys(s.Workers)), slices.Sorted(slices.Values(workers)))
}

// identity returns a text that is unique among a deployment's generations, including generations without a name.
func (s *StoredGeneration) identity() string {
	if s.Generation != "" {
		return s.Generation
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Workers)) {
		all.WriteString(name + " " + s.Workers[name].Revision + "\n")
	}
	return "none-" + shortHash(all.String())
}

// ControllerRevision returns a ControllerRevision that stores the generation with the given revision number. The caller sets owner
// references. The object's name depends on the deployment's UID. ControllerRevision returns an error if the pod templates are too large to
// store.
func (s *StoredGeneration) ControllerRevision(dgd *nvidiav1beta1.DynamoGraphDeployment, number int64) (*appsv1.ControllerRevision, error) {
	raw, err := s.sorted()
	if err != nil {
		return nil, fmt.Errorf("writing generation %s: %w", s.identity(), err)
	}
	if len(raw) > MaxStoredGeneration {
		return nil, fmt.Errorf("generation %s is not stored: its pods take %d bytes, but at most %d can be stored", s.identity(), len(raw),
			MaxStoredGeneration)
	}
	labels := map[string]string{LabelGraph: LabelValue(dgd.Name), LabelManagedBy: ManagedBy}
	setIf(labels, LabelWorkerHash, s.Generation)
	return &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: dgd.Namespace, Name: s.RevisionName(dgd), Labels: labels},
		Data:       runtime.RawExtension{Raw: raw}, Revision: number,
	}, nil
}

// sorted marshals a generation with sorted keys. When the API server applies a patch to another field of a ControllerRevision, it treats a
// different order of keys as a change of the data, which is immutable.
func (s *StoredGeneration) sorted() ([]byte, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

// RevisionName returns the name of the ControllerRevision that stores this generation of a deployment.
func (s *StoredGeneration) RevisionName(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	return hashed(dgd.Name, string(dgd.UID)+"/"+s.identity(), validation.DNS1123SubdomainMaxLength)
}

// StoredIn reads a generation from a ControllerRevision.
func StoredIn(revision *appsv1.ControllerRevision) (*StoredGeneration, error) {
	out := &StoredGeneration{}
	if err := json.Unmarshal(revision.Data.Raw, out); err != nil {
		return nil, fmt.Errorf("reading the generation in ControllerRevision %s: %w", revision.Name, err)
	}
	return out, nil
}

// Rollback describes the return of the workers to an earlier generation.
type Rollback struct {
	// Aborted is the aborted generation. The workers roll back as long as the deployment requests this generation.
	Aborted string
	// Input is the Graph.WorkersInput of the aborted generation; "" if unknown.
	Input string
	// InForce: at the last reconcile, the workers had rolled back or were rolling back.
	InForce bool
	// To are the stored generations to return to, in order of preference. The workers return to the first generation that consists of the
	// deployment's workers.
	To []*StoredGeneration
}

// asked reports whether the deployment still requests the aborted generation, because the user has changed no worker since the abort. The
// operator may render the workers differently now. If the inputs have different forms, they cannot be compared, and asked returns true only
// while a rollback is in force.
func (b *Rollback) asked(input string) bool {
	if b == nil || b.Aborted == "" || b.Input == "" {
		return false
	}
	return b.Input == input || b.InForce && !sameForm(b.Input, input)
}

// target returns the generation to roll back to. It returns nil if the generation is not aborted, or if no stored generation consists of
// the deployment's workers.
func (b *Rollback) target(generation string, components []*rendering) *StoredGeneration {
	if b == nil || b.Aborted == "" || b.Aborted != generation {
		return nil
	}
	var workers []string
	for _, r := range components {
		if r.worker() {
			workers = append(workers, r.name)
		}
	}
	for _, stored := range b.To {
		if stored.holds(workers) {
			return stored
		}
	}
	return nil
}

// pods returns the pods of a component in the stored generation. If the stored input is missing or has another form, it cannot be compared
// with the current input. In this case, pods returns an input that equals the input of no component. If pods returned the current input
// instead, the next reconcile would mistake the stored pods for the pods that the deployment requests.
func (s *StoredGeneration) pods(component string) replicaPods {
	worker := s.Workers[component]
	input := worker.Input
	if input == nil || input.Form != inputForm {
		input = &trellisv1alpha1.TemplateInput{Form: inputForm}
	}
	return replicaPods{roles: worker.Roles, revision: worker.Revision, input: input}
}

// Images returns the images of the workers' main containers, by component.
func (s *StoredGeneration) Images() map[string]string {
	out := map[string]string{}
	for component, worker := range s.Workers {
		if len(worker.Roles) == 0 {
			continue
		}
		for _, c := range worker.Roles[0].Template.Spec.Containers {
			if c.Name == mainContainerName {
				out[component] = c.Image
			}
		}
	}
	return out
}
