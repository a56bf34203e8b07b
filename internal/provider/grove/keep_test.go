// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestKeepPods: pods that another version of the operator wrote stay as they are until their revision, restart or queue changes.
// TestKeepMinAvailable: Grove refuses another one than that with which the set was made.
func TestKeepMinAvailable(t *testing.T) {
	rendering := func(text string) *grove.PodCliqueSet {
		dgd := providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec: {services: {A: {replicas: 2, multinode: {nodeCount: 2}"+text+"}, B: {replicas: 2"+text+"}}}")
		return grove.Render(providertest.Grove(t, dgd), grove.Schema{})
	}
	want, have := rendering(", minAvailable: 2"), rendering("")
	template := &want.Spec.Template
	if got := *template.PodCliqueScalingGroups[0].MinAvailable + *template.Cliques[2].Spec.MinAvailable; got != 4 {
		t.Fatalf("%d, want 2 and 2", got)
	}
	grove.KeepPods(want, have)
	if a, b := *template.PodCliqueScalingGroups[0].MinAvailable, *template.Cliques[2].Spec.MinAvailable; a != 1 || b != 1 {
		t.Errorf("%d and %d, want what is there", a, b)
	}
}

func TestKeepPods(t *testing.T) {
	set := func(env string, labels, annotations map[string]string) *grove.PodCliqueSet {
		return &grove.PodCliqueSet{Spec: grove.PodCliqueSetSpec{Template: grove.Template{Cliques: []grove.Clique{{
			Name: "worker", Labels: labels, Annotations: annotations,
			Spec: grove.CliqueSpec{PodSpec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Env: []corev1.EnvVar{{Name: env}}}}}},
		}}}}}
	}
	stored := map[string]string{render.LabelRevision: "r1", kai.LabelQueue: "q", "old": "label"}
	tests := map[string]struct {
		labels, annotations map[string]string
		kept                bool
	}{
		"same revision":     {labels: map[string]string{render.LabelRevision: "r1", kai.LabelQueue: "q"}, kept: true},
		"other revision":    {labels: map[string]string{render.LabelRevision: "r2", kai.LabelQueue: "q"}},
		"other queue":       {labels: map[string]string{render.LabelRevision: "r1", kai.LabelQueue: "p"}},
		"another restart":   {labels: map[string]string{render.LabelRevision: "r1", kai.LabelQueue: "q"}, annotations: map[string]string{render.AnnotationRestart: "1"}},
		"queue went away":   {labels: map[string]string{render.LabelRevision: "r1"}},
		"revision is there": {labels: map[string]string{kai.LabelQueue: "q"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want, have := set("NEW", test.labels, test.annotations), set("OLD", stored, nil)
			grove.KeepPods(want, have)
			clique := want.Spec.Template.Cliques[0]
			if kept := clique.Spec.PodSpec.Containers[0].Env[0].Name == "OLD" && clique.Labels["old"] != ""; kept != test.kept {
				t.Errorf("kept = %v, want %v: %+v", kept, test.kept, clique)
			}
		})
	}
}
