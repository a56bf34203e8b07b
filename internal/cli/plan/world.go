// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// World returns the cluster as it would be after the plan. It contains the planned deployments with their scaling groups, and their bound
// pods.
func (r *Plans) World() whatif.World {
	w := r.in.world
	w.Pods, w.Groups, w.Graphs = slices.Clone(w.Pods), slices.Clone(w.Groups), slices.Clone(w.Graphs)
	for i, wanted := range r.in.plan {
		w.Graphs = replaced(w.Graphs, wanted.dgd)
		w.Groups = slices.DeleteFunc(w.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return of(wanted.dgd, sg) })
		w.Groups = append(w.Groups, r.Plans[i].Groups...)
	}
	at := map[string]int{}
	for i, pod := range w.Pods {
		at[pod.Namespace+"/"+pod.Name] = i
	}
	for i := range r.Plans {
		for _, pod := range r.Plans[i].PlannedPods() {
			if j, exists := at[pod.Namespace+"/"+pod.Name]; exists {
				w.Pods[j] = pod
			} else {
				w.Pods = append(w.Pods, pod)
			}
		}
	}
	return w
}

func of(dgd *nvidiav1beta1.DynamoGraphDeployment, sg *trellisv1alpha1.ScalingGroup) bool {
	return sg.Namespace == dgd.Namespace && sg.Spec.Graph == dgd.Name
}
