// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An object stored before the bounds on replicas and nodeCount keeps its numbers: its status is written, it is labelled and scaled in, and only a
// number beyond the bound is refused.
func TestNumbersOlderThanTheBounds(t *testing.T) {
	const role = "roles: [{name: leader, count: 1, template: {}}, {name: worker, count: 2147483646, template: {}}]"
	for kind, c := range map[string]struct {
		file, object, status, up, down string
		want                           refusal
		subresource                    string
	}{
		"dynamographdeployments": {
			file:   "nvidia.com_dynamographdeployments.yaml",
			object: "{apiVersion: bounds.example.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {name: old}, spec: {services: {a: {replicas: 1000000, multinode: {nodeCount: 2147483647}}, b: {replicas: 3}}}}",
			status: deploymentStatus, up: "spec: {services: {a: {replicas: 1000001}}}", down: "spec: {services: {a: {replicas: 0}}}",
			want: refusal{"spec.services.a.replicas", "should be less than or equal to 65536"},
		},
		"dynamographdeploymentscalingadapters": {
			file:   "nvidia.com_dynamographdeploymentscalingadapters.yaml",
			object: "{apiVersion: bounds.example.com/v1alpha1, kind: DynamoGraphDeploymentScalingAdapter, metadata: {name: old}, spec: {replicas: 1000000, dgdRef: {name: g, serviceName: a}}}",
			status: scalingAdapterStatus, up: "spec: {replicas: 1000001}", down: "spec: {replicas: 65536}",
			want: refusal{"spec.replicas", "should be less than or equal to 65536"}, subresource: "scale",
		},
		"scalinggroups": {
			file:   "trellis.dev_scalinggroups.yaml",
			object: "{apiVersion: bounds.example.com/v1alpha1, kind: ScalingGroup, metadata: {name: old}, spec: {graph: g, service: a, engine: Gates, multinode: true, replicas: 1000000, revision: '1', " + role + "}}",
			status: "status: {observedGeneration: 1, replicas: 3}", up: "spec: {replicas: 1000001}", down: "spec: {replicas: 5}",
			want: refusal{"spec.replicas", "should be less than or equal to 65536"},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			strict := object(t, readFile(t, filepath.Join(basesDir, c.file)), "metadata: {name: "+kind+".bounds.example.com}", "spec: {group: bounds.example.com}")
			t.Cleanup(func() {
				_ = client.Resource(definitions).Delete(context.Background(), strict.GetName(), metav1.DeleteOptions{})
			})
			loose := strict.DeepCopy()
			dropRules(loose.Object["spec"])
			objects := client.Resource(schema.GroupVersionResource{Group: "bounds.example.com", Version: "v1alpha1", Resource: kind}).Namespace(namespace)
			install(t, loose)
			old := object(t, c.object)
			await(t, func(ctx context.Context) bool {
				_, err := objects.Create(ctx, old, metav1.CreateOptions{})
				return err == nil
			})
			install(t, strict)
			old.SetName("another")
			await(t, func(ctx context.Context) bool {
				_, err := objects.Create(ctx, old, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err != nil
			})
			change := func(text string, subresources ...string) error {
				_, err := patchThrough(t, objects, "old", text, subresources...)
				return err
			}
			refusal{}.check(t, change("metadata: {labels: {a: b}}"))
			refusal{}.check(t, change(c.status, "status"))
			c.want.check(t, change(c.up))
			if c.subresource != "" {
				c.want.check(t, change(c.up, c.subresource))
				refusal{}.check(t, change(c.down, c.subresource))
			}
			refusal{}.check(t, change(c.down))
			refusal{}.check(t, change(c.status, "status"))
		})
	}
}
