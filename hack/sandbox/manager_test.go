// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// A manager gets the flag that ends it at once only if it knows it: v0.1.0 does not start with flags that it does not know.
func TestFlagsOfEarlierManagers(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		want   bool
	}{
		"knows it":      {`echo "      --shutdown-delay duration   how long"`, true},
		"knows another": {`echo "      --shutdown-delays duration"`, false},
		"has no help":   {"exit 2", true},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "manager")
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+tc.script+"\n"), 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			deployment := &appsv1.Deployment{}
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--of-the-manifest"}}}
			got := newManagerSpec(t.Context(), Options{ManagerBinary: program}, deployment)
			want := []string{"--of-the-manifest", "--leader-elect=false"}
			if tc.want {
				want = append(want, "--shutdown-delay=0s")
			}
			if !slices.Equal(got.Args, want) {
				t.Errorf("arguments %q, want %q", got.Args, want)
			}
		})
	}
}
