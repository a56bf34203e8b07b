// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// annotationBaseModel on a model's Service holds the name of the model; a label holds the hash of the name.
const annotationBaseModel = "nvidia.com/dynamo-base-model"

// modelServices returns a headless Service for each model to which the graph's components refer. The Service selects the ready pods that
// serve the model, from all graphs in the namespace.
func (g *Graph) modelServices(dgd *nvidiav1beta1.DynamoGraphDeployment) []Object {
	var models []string
	for _, s := range g.Components {
		if ref := dgd.Component(s.Name).ModelRef; ref != nil && ref.Name != "" {
			models = append(models, ref.Name)
		}
	}
	slices.Sort(models)
	var out []Object
	for _, model := range slices.Compact(models) {
		out = append(out, g.modelService(model))
	}
	return out
}

func (g *Graph) modelService(model string) Object {
	hash := shortHash(model)
	meta := g.sharedMeta("dynamo-model-"+hash, map[string]string{LabelBaseModelHash: hash})
	meta.Annotations = map[string]string{annotationBaseModel: model}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  map[string]string{LabelBaseModelHash: hash},
			Ports: []corev1.ServicePort{{
				Name: portSystem, Port: systemPort, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(systemPort),
			}},
		},
	}
}
