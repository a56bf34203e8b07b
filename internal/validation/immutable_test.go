// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

func TestGraphUpdate(t *testing.T) {
	const constraintText = " is immutable and cannot be added, removed, or changed after creation; delete and recreate the DynamoGraphDeployment to change topology constraints"
	deploymentConstraint := "spec.topologyConstraint: Forbidden: spec.topologyConstraint" + constraintText
	workerConstraint := "spec.services[Worker].topologyConstraint: Forbidden: spec.services[Worker].topologyConstraint" + constraintText
	nodeTopology := "spec.services[Worker].multinode: Forbidden: spec.services[Worker] cannot change node topology (between single-node and multi-node) " +
		"after creation; delete and recreate the DynamoGraphDeployment"
	const recreateComponents = "; delete and recreate the DynamoGraphDeployment, or set replicas to 0 to stop a service"
	unconstrained := func(d *deployment) {
		d.Spec.TopologyConstraint, d.Spec.Services["Worker"].TopologyConstraint = nil, nil
	}
	broken := func(d *deployment) {
		d.Spec.Services["Worker"].Replicas = ptr.To[int32](-3)
		d.Spec.Services["bad_name"] = &componentSpec{}
	}
	tests := map[string]struct {
		old, change func(*deployment)
		want        []string
	}{
		"nothing":           {},
		"scaled":            {change: worker(func(s *componentSpec) { s.Replicas = ptr.To[int32](5) })},
		"nodeCount changed": {change: worker(func(s *componentSpec) { s.Multinode.NodeCount = 8 })},
		"metadata of an object that breaks rules": {old: broken, change: func(d *deployment) {
			d.Labels, d.Finalizers = map[string]string{"a": "b"}, nil
		}},
		"status of an object that breaks rules": {old: broken, change: func(d *deployment) { d.Status.State = "failed" }},
		"another field of an object that breaks rules": {old: broken, change: func(d *deployment) {
			d.Spec.Services["Frontend"].Replicas = ptr.To[int32](7)
		}},
		"a rule that the old object broke, broken otherwise": {
			old:    broken,
			change: worker(func(s *componentSpec) { s.Replicas = ptr.To[int32](-4) }),
			want:   []string{"spec.services[Worker].replicas: Invalid value: -4: spec.services[Worker].replicas must be non-negative"},
		},
		"a rule newly broken": {
			change: worker(func(s *componentSpec) { s.Replicas = ptr.To[int32](-1) }),
			want:   []string{"spec.services[Worker].replicas: Invalid value: -1: spec.services[Worker].replicas must be non-negative"},
		},
		"anything while it is being deleted": {
			change: func(d *deployment) { d.DeletionTimestamp, d.Spec.TopologyConstraint = ptr.To(metav1.Now()), nil },
		},
		"provider while there are pods": {
			old: func(d *deployment) {
				d.Status.Services = map[string]nvidiav1alpha1.ServiceStatus{"Worker": {Replicas: 2}, "Frontend": {}}
			},
			change: func(d *deployment) { d.Annotations = map[string]string{render.AnnotationProvider: "PodGroup"} },
			want: []string{"metadata.annotations[trellis.dev/provider]: Forbidden: the provider is immutable while the deployment has pods " +
				"(service Worker has 2 replicas); scale all services to 0 first, or delete and recreate the DynamoGraphDeployment"},
		},
		"provider by its new name while there are pods": {
			old: func(d *deployment) {
				d.Annotations = map[string]string{render.AnnotationFormerProvider: "KAI"}
				d.Status.Services = map[string]nvidiav1alpha1.ServiceStatus{"Worker": {Replicas: 2}, "Frontend": {}}
			},
			change: func(d *deployment) { d.Annotations = map[string]string{render.AnnotationProvider: "KAI"} },
		},
		"workload while there are pods": {
			old: func(d *deployment) {
				d.Status.Services = map[string]nvidiav1alpha1.ServiceStatus{"Worker": {Replicas: 2}, "Frontend": {}}
			},
			change: func(d *deployment) { d.Annotations = map[string]string{render.AnnotationWorkload: "LeaderWorkerSet"} },
			want: []string{"metadata.annotations[trellis.dev/workload]: Forbidden: the workload is immutable while the deployment has pods " +
				"(service Worker has 2 replicas); scale all services to 0 first, or delete and recreate the DynamoGraphDeployment"},
		},
		"provider while there are none": {
			old: func(d *deployment) {
				d.Status.Services = map[string]nvidiav1alpha1.ServiceStatus{"Worker": {}, "Frontend": {}}
			},
			change: func(d *deployment) { d.Annotations = map[string]string{render.AnnotationProvider: "PodGroup"} },
		},
		"deployment constraint: topology": {
			change: func(d *deployment) { d.Spec.TopologyConstraint.TopologyProfile = "h100" },
			want:   []string{deploymentConstraint},
		},
		"deployment constraint: packDomain": {
			change: func(d *deployment) { d.Spec.TopologyConstraint.PackDomain = "block" },
			want:   []string{deploymentConstraint},
		},
		"deployment constraint: preferredPackDomain added": {
			change: func(d *deployment) { d.Spec.TopologyConstraint.PreferredPackDomain = "block" },
			want:   []string{deploymentConstraint},
		},
		"deployment constraint: added": {
			old: unconstrained,
			change: func(d *deployment) {
				d.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: "gb200", PackDomain: "zone"}
			},
			want: []string{deploymentConstraint},
		},
		"all constraints removed": {change: unconstrained, want: []string{deploymentConstraint, workerConstraint}},
		"service constraint: changed": {
			change: worker(func(s *componentSpec) { s.TopologyConstraint.PackDomain = "block" }),
			want:   []string{workerConstraint},
		},
		"service constraint: removed": {
			change: worker(func(s *componentSpec) { s.TopologyConstraint = nil }),
			want:   []string{workerConstraint},
		},
		"service constraint: added": {
			change: func(d *deployment) {
				d.Spec.Services["Frontend"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "rack"}
			},
			want: []string{strings.ReplaceAll(workerConstraint, "Worker", "Frontend")},
		},
		"service removed, another added": {
			change: func(d *deployment) {
				d.Spec.Services["Prefill"] = d.Spec.Services["Frontend"]
				delete(d.Spec.Services, "Frontend")
			},
			want: []string{"spec.services: Forbidden: service topology is immutable and cannot be modified after creation: services added: [Prefill], " +
				"services removed: [Frontend]" + recreateComponents},
		},
		"service removed": {
			change: func(d *deployment) { delete(d.Spec.Services, "Worker") },
			want: []string{"spec.services: Forbidden: service topology is immutable and cannot be modified after creation: services removed: [Worker]" +
				recreateComponents},
		},
		"multinode removed": {change: worker(func(s *componentSpec) { s.Multinode = nil }), want: []string{nodeTopology}},
		"framework set later": {
			change: func(d *deployment) { d.Spec.BackendFramework = "vllm" },
			want: []string{"spec.backendFramework: Forbidden: spec.backendFramework is immutable and cannot be changed after creation; " +
				"delete and recreate the DynamoGraphDeployment"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			old := newGraph()
			if tc.old != nil {
				tc.old(old)
			}
			updated := old.DeepCopy()
			if tc.change != nil {
				tc.change(updated)
			}
			if diff := cmp.Diff(tc.want, texts(GraphUpdate(written(updated), written(old)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if errs := GraphUpdate(written(old), written(old)); errs != nil {
				t.Errorf("an unchanged object is refused: %v", errs.ToAggregate())
			}
		})
	}
}

func TestProviderUpdate(t *testing.T) {
	tests := map[string]struct {
		change func(*deployment)
		want   []string
	}{
		"another number of nodes": {
			change: worker(func(s *componentSpec) { s.Multinode = &nvidiav1alpha1.MultinodeSpec{NodeCount: 2} }),
			want: []string{"spec.services[Worker].multinode.nodeCount: Forbidden: nodeCount is immutable under the provider Grove, which cannot change minAvailable " +
				"of a clique (4 to 2); delete and recreate the DynamoGraphDeployment, or use another provider (annotation trellis.dev/provider)"},
		},
		"another number of replicas":                 {change: worker(func(s *componentSpec) { s.Replicas = ptr.To[int32](5) })},
		"multinode removed, which another rule says": {change: worker(func(s *componentSpec) { s.Multinode = nil })},
		"being deleted": {change: func(d *deployment) {
			d.DeletionTimestamp = ptr.To(metav1.Now())
			d.Spec.Services["Worker"].Multinode.NodeCount = 2
		}},
	}
	for name, tc := range tests {
		old := newGraph()
		updated := old.DeepCopy()
		tc.change(updated)
		if diff := cmp.Diff(tc.want, texts(ProviderUpdate(hub.Of(updated), hub.Of(old), specs.Grove.Name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
