// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/framework"
)

// templater makes the pod template of one component. It collects all errors instead of stopping at the first one.
type templater struct {
	dgd  *nvidiav1beta1.DynamoGraphDeployment
	name string
	spec *nvidiav1beta1.ComponentSpec
	// alpha holds the fields of the component that only v1alpha1 has.
	alpha nvidiav1alpha1.AlphaOnlyService
	// componentType and subComponentType are in the spelling of Dynamo's programs and labels: prefill and decode are sub-types of worker.
	componentType, subComponentType string

	path     *field.Path
	defaults defaults
	platform Platform
	// provider is the name of the deployment's provider.
	provider string
	errs     []error
	// generation is the generation of workers to which the component belongs; "" for none.
	generation string
	// launched: the pods of a replica start as one distributed program.
	launched bool
}

func newTemplater(dgd *nvidiav1beta1.DynamoGraphDeployment, spec *nvidiav1beta1.ComponentSpec,
	alpha nvidiav1alpha1.AlphaOnlyService) *templater {
	t := &templater{dgd: dgd, name: spec.Name, spec: spec, alpha: alpha, path: PathOf(dgd, spec.Name)}
	t.componentType, t.subComponentType = typesOf(spec, &alpha)
	t.defaults = defaultsOf(t.componentType, t.dynamoNamespace(), runtimeVersion(spec))
	if t.componentType == typeEPP {
		t.defaults.launchPicker(dgd, spec)
	}
	return t
}

// typesOf returns the types of a component. It keeps v1alpha1 types that v1beta1 cannot express.
func typesOf(spec *nvidiav1beta1.ComponentSpec, alpha *nvidiav1alpha1.AlphaOnlyService) (componentType, subComponentType string) {
	if alpha.ComponentType != "" || alpha.SubComponentType != "" {
		return alpha.ComponentType, alpha.SubComponentType
	}
	switch spec.Type {
	case nvidiav1beta1.ComponentTypePrefill, nvidiav1beta1.ComponentTypeDecode:
		return typeWorker, string(spec.Type)
	}
	return string(spec.Type), ""
}

func (t *templater) invalid(path *field.Path, format string, args ...any) {
	t.errs = append(t.errs, invalid(path, format, args...))
}

// roles returns the roles of one replica's pods: one main role, or a leader and its workers.
func (t *templater) roles(nodes int32) []trellisv1alpha1.Role {
	template := t.template()
	if nodes == 1 {
		return []trellisv1alpha1.Role{{Name: RoleMain, Count: 1, Template: *template}}
	}
	leader, worker := template, template.DeepCopy()
	t.launch(nodes, leader, worker)
	return []trellisv1alpha1.Role{
		{Name: RoleLeader, Count: 1, Template: *leader},
		{Name: RoleWorker, Count: nodes - 1, Template: *worker},
	}
}

// launch makes the pods of a replica start as one program if their command runs a known framework. It leaves other commands unchanged.
func (t *templater) launch(nodes int32, leader, worker *corev1.PodTemplateSpec) {
	main := &leader.Spec.Containers[0]
	if _, err := framework.Detect(main, string(t.dgd.Spec.BackendFramework)); err != nil {
		t.invalid(t.path.Child("podTemplate", "spec", "containers").Key(mainContainerName), "%s", err)
		return
	}
	replica := framework.Replica{Nodes: nodes, GPUs: t.gpus(main), Executor: t.executor()}
	t.launched = framework.Launch(replica, &leader.Spec, &worker.Spec)
}

// executor returns vLLM's executor for several nodes: the executor that an annotation names, or otherwise the default at the time when the
// deployment was created; "" for the current default.
func (t *templater) executor() string {
	annotations := t.settings()
	if executor := annotations[annotationVLLMExecutor]; executor != "" {
		return strings.ToLower(executor)
	}
	origin, err := version.ParseSemantic(annotations[annotationOriginVersion])
	if err == nil && origin.Major() == 0 {
		return framework.ExecutorRay
	}
	return ""
}

// gpus returns the number of GPUs in the limits of the main container.
func (t *templater) gpus(main *corev1.Container) int64 {
	quantity := main.Resources.Limits[corev1.ResourceName(cmp.Or(t.alpha.GPUResource, resourceGPU))]
	return quantity.Value()
}

func (t *templater) template() *corev1.PodTemplateSpec {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: t.podLabels(), Annotations: t.podAnnotations()},
		Spec:       t.podSpec(),
	}
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"initContainers", template.Spec.InitContainers}, {"containers", template.Spec.Containers}} {
		for i := range list.containers {
			c := &list.containers[i]
			t.normalise(t.resourcesPath(list.field, i, c.Name), &c.Resources)
		}
	}
	return template
}

// resourcesPath returns the field path of a container's resources in the deployment.
func (t *templater) resourcesPath(list string, index int, container string) *field.Path {
	if list == "containers" && index == 0 {
		container = mainContainerName
	}
	return t.path.Child("podTemplate", "spec", list).Key(container).Child("resources")
}
