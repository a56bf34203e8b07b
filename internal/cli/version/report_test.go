// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/version"
)

func TestOperators(t *testing.T) {
	for image, want := range map[string]string{
		"ghcr.io/trellis-k8s/trellis-manager:v0.1.0":               "v0.1.0",
		"registry.example:5000/trellis-manager":                    "",
		"registry.example:5000/trellis-manager:v0.2.0@sha256:abcd": "v0.2.0",
		"trellis-manager@sha256:abcd":                              "",
	} {
		deployment := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "trellis-system", Name: "m"}}
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "proxy:v9"}, {Name: "manager", Image: image}}
		if diff := cmp.Diff([]Operator{{Namespace: "trellis-system", Name: "m", Image: image, Version: want}}, operators([]appsv1.Deployment{deployment})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", image, diff)
		}
	}
}

// TestWidths: on a terminal no line is longer than the terminal is wide.
func TestWidths(t *testing.T) {
	r := Versions{
		Client:    version.Info{Version: "v0.1.0-rc.1+dirty", Revision: "4450ab3f330f4450ab3f330f4450ab3f330f", GoVersion: "go1.26.8", Platform: "linux/amd64"},
		Operators: []Operator{{"trellis-system", "m", "ghcr.io/trellis-k8s/trellis-manager:v0.1.0-rc.1", "v0.1.0-rc.1"}},
	}
	for _, columns := range []int{80, 100, 160} {
		for line := range strings.Lines(r.Text(text.Page{Columns: columns})) {
			if width := text.Width(strings.TrimSuffix(line, "\n")); width > columns {
				t.Errorf("%d of %d columns: %s", width, columns, line)
			}
		}
	}
}

func TestText(t *testing.T) {
	client := version.Info{Version: "v0.1.0", Revision: "unknown", GoVersion: "go1.26.8", Platform: "linux/amd64"}
	const line = "Client:   v0.1.0 (commit unknown, go1.26.8, linux/amd64)\n"
	for name, tc := range map[string]struct {
		report Versions
		want   string
	}{
		"client only": {Versions{Client: client}, line},
		"both": {
			Versions{Client: client, Operators: []Operator{{"trellis-system", "m", "r/m:v0.1.0", "v0.1.0"}}},
			line + "Operator: v0.1.0 (image r/m:v0.1.0, namespace trellis-system)\n",
		},
		"by digest": {
			Versions{Client: client, Operators: []Operator{{"ops", "m", "r/m@sha256:ab", ""}}},
			line + "Operator: unknown (image r/m@sha256:ab, namespace ops)\n",
		},
		"no cluster": {Versions{Client: client, Problem: "connection refused"}, line + "Operator: unknown: connection refused\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.report.Text(text.Page{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
