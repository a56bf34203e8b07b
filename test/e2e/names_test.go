// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// Names as long as Kubernetes takes them, in CamelCase, become pods and Services; names that become one are refused.
func TestLongNames(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "names", racks(2, 8, "a/r0")...)
	graph := strings.Repeat("llama-", 10) + "end"
	service := strings.Repeat("DecodeWorker", 5) + "End"
	if len(graph) != validation.DNS1123LabelMaxLength || len(service) != validation.DNS1123LabelMaxLength {
		t.Fatalf("the names have %d and %d characters", len(graph), len(service))
	}
	w.create(w.graphOf(graph, "zone", services{service: worker(1, 2, 8, "rack"), "Frontend": frontend(2)}))
	w.ready(graph)
	for _, pod := range w.all() {
		if len(pod.Name) > validation.DNS1123LabelMaxLength || pod.Spec.Hostname != "" && pod.Spec.Hostname != pod.Name {
			t.Errorf("pod %s has hostname %q", pod.Name, pod.Spec.Hostname)
		}
	}
	for _, s := range list(w, &corev1.ServiceList{}).Items {
		if s.Spec.ClusterIP == "" {
			t.Errorf("Service %s has no address", s.Name)
		}
	}

	collides := w.graphOf("collides", "zone", services{"Worker": worker(1, 1, 1, ""), "wOrker": worker(1, 1, 1, "")})
	refused(t, w.c.Create(t.Context(), collides), "service names must be unique in lower case")
}
