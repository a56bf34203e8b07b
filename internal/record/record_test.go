// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

func TestBounded(t *testing.T) {
	for name, c := range map[string]struct{ note, want string }{
		"short":                  {"rack a: 100% used", "rack a: 100% used"},
		"as long as may be":      {strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		"too long":               {strings.Repeat("x", 1025), strings.Repeat("x", 1021) + "..."},
		"cut within a character": {strings.Repeat("ä", 600), strings.Repeat("ä", 510) + "..."},
	} {
		fake := events.NewFakeRecorder(1)
		Bounded(fake).Eventf(&corev1.Pod{}, nil, corev1.EventTypeWarning, "Reason", "Act", "%s", c.note)
		if got := strings.TrimPrefix(<-fake.Events, "Warning Reason "); got != c.want || len(got) > 1024 {
			t.Errorf("%s: %d bytes: %.60q", name, len(got), got)
		}
	}
}
