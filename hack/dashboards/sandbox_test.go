// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// startSandbox starts a cluster of two racks of three hosts with 8 GPUs. One graph has two replicas of two hosts, which fragment both
// racks; another graph waits for three hosts of one rack.
func startSandbox(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	dir, err := os.MkdirTemp("", "dash") // short, because of the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sandbox.Down(context.WithoutCancel(t.Context()), dir); err != nil {
			t.Error(err)
		}
	})
	cluster, err := sandbox.Up(t.Context(), sandbox.Options{
		Name: "dashboards", Dir: dir, Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 2, Hosts: 3, GPUs: 8}, Operator: true,
		Manager: sandbox.ManagerOptions{Args: []string{"--leader-elect=true", "--graph-metrics=1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	config, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: operator.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	topology := &grovev1alpha1.ClusterTopology{}
	if err := yaml.Unmarshal(read(t, root+"/config/samples/clustertopology.yaml"), topology); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{topology}
	for name, service := range map[string]*nvidiav1alpha1.ServiceSpec{"runs": graphs.Worker(2, 2, 8, "rack"), "waits": graphs.Worker(1, 3, 8, "rack")} {
		objects = append(objects, &nvidiav1alpha1.DynamoGraphDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{
				TopologyConstraint: &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: topology.Name},
				Services:           graphs.Components{"Worker": service},
			},
		})
	}
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}
