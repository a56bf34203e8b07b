// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record is how the operator records events: within what the API server accepts. Notes hold the words of planners and schedulers,
// whose length no one bounds, and an event with too long a note is refused entirely and lost.
package record

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// maxNote is the API server's limit for the note of an event, in bytes.
const maxNote = 1024

// Bounded returns a recorder that cuts notes at the API server's limit.
func Bounded(recorder events.EventRecorder) events.EventRecorder { return bounded{recorder} }

type bounded struct{ recorder events.EventRecorder }

// Eventf implements events.EventRecorder.
func (b bounded) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	b.recorder.Eventf(regarding, related, kind, reason, action, "%s", limit.Text(fmt.Sprintf(note, args...), maxNote))
}
