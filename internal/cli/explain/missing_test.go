// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// TestMissingPods: a condition that says that everything is placed does not hide that pods are gone.
func TestMissingPods(t *testing.T) {
	all := firstRuns + "chat-worker-1-0 node a-1-0\nchat-worker-1-1 node a-1-1"
	for name, tc := range map[string]struct {
		pods, want string
		agrees     bool
	}{
		"all there":   {all, "every packed replica is placed.", true},
		"one gone":    {strings.TrimSuffix(all, "\nchat-worker-1-1 node a-1-1"), "but pods are missing of Worker-1. It has not reported that yet.", false},
		"worker gone": {firstRuns, "but pods are missing of Worker-1.", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, chat).resolve(tc.pods)
			w.condition(placed, true, "AllReplicasPlaced", "all 3 packed replicas are placed in a")
			r := Build(w.Subject)
			got := strings.Join(strings.Fields(r.Text(text.Page{})), " ")
			if r.Result.Agrees != tc.agrees || !strings.Contains(got, tc.want) {
				t.Errorf("agrees %t, want %t and %q in\n%s", r.Result.Agrees, tc.agrees, tc.want, got)
			}
		})
	}
}
