// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli"
)

// TestRestart: a restart is requested after a yes, or with --yes, and the Parallel one removes the order of a former request.
func TestRestart(t *testing.T) {
	c := startCluster(t)
	scheme, err := cli.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(server.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	requested := func() *nvidiav1beta1.Restart {
		t.Helper()
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		if err := admin.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "chat"}, dgd); err != nil {
			t.Fatal(err)
		}
		return dgd.Spec.Restart
	}
	restart := func(args ...string) (string, string, error) {
		return c.run(t.Context(), append([]string{"rollout", "restart", "dgd/chat", "--kubeconfig", c.kubeconfig}, args...)...)
	}
	_, asked, err := restart("--parallel")
	if err == nil || !strings.Contains(asked, "All pods of chat in default stop") || requested() != nil {
		t.Errorf("not answered: %v, asked %q, requested %+v", err, asked, requested())
	}
	out, _, err := restart("-y")
	first := requested()
	if err != nil || first == nil || first.Strategy.Type != nvidiav1beta1.RestartStrategySequential || !strings.Contains(out, "restart "+first.ID+" requested") {
		t.Fatalf("Sequential: %v, %q, requested %+v", err, out, first)
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Namespace, dgd.Name = "default", "chat"
	order := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"restart":{"strategy":{"order":["Worker"]}}}}`))
	if err := admin.Patch(t.Context(), dgd, order); err != nil {
		t.Fatal(err)
	}
	_, asked, err = restart("--parallel", "--yes")
	if second := requested(); err != nil || strings.Contains(asked, "[y/N]") || second.ID == first.ID || second.Strategy.Type != nvidiav1beta1.RestartStrategyParallel || second.Strategy.Order != nil {
		t.Errorf("Parallel: %v, asked %q, requested %+v", err, asked, second)
	}
	if _, _, err := restart("--as", "planner", "--yes"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("without the right to patch: %v", err)
	}
}
