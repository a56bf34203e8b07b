// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record creates events within the limits of the API server. Event notes contain messages of planners and schedulers, whose length
// is not bounded. The API server refuses an event whose note is too long, and the event is lost.
package record

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// maxNote is the API server's limit for an event note, in bytes.
const maxNote = 1024

// Bounded returns a recorder that shortens notes to the API server's limit.
func Bounded(recorder events.EventRecorder) events.EventRecorder { return bounded{recorder} }

type bounded struct{ recorder events.EventRecorder }

// Eventf implements events.EventRecorder.
func (b bounded) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	b.recorder.Eventf(regarding, related, kind, reason, action, "%s", limit.Text(fmt.Sprintf(note, args...), maxNote))
}
