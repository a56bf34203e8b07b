// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// workload returns a new Workload. Its priority is the highest priority among the pods that name the Workload. Admission has already set
// the priorities of these pods.
func (o *Observation) workload(name string, sets []PodSet, pods []*corev1.Pod) *Workload {
	top := slices.MaxFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(topology.PriorityOf(a), topology.PriorityOf(b)), cmp.Compare(b.Name, a.Name))
	})
	w := &Workload{
		TypeMeta: metav1.TypeMeta{APIVersion: WorkloadKind.GroupVersion().String(), Kind: WorkloadKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: o.DGD.Namespace,
			Labels:      map[string]string{LabelGraphUID: string(o.DGD.UID), render.LabelGraph: render.LabelValue(o.DGD.Name)},
			Annotations: map[string]string{annotationGroup: "true"},
			OwnerReferences: []metav1.OwnerReference{{ // no controller: Kueue ignores Workloads that an object other than their pods controls
				APIVersion: nvidiav1beta1.GroupVersion.String(), Kind: "DynamoGraphDeployment", Name: o.DGD.Name, UID: o.DGD.UID,
			}},
		},
		Spec: WorkloadSpec{QueueName: o.Queue(), PodSets: sets, Priority: topology.PriorityOf(top)},
	}
	if class := top.Spec.PriorityClassName; class != "" {
		w.Spec.PriorityClassRef = &PriorityClassRef{Group: "scheduling.k8s.io", Kind: "PriorityClass", Name: class}
	}
	return w
}
