// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"sync/atomic"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// Denied stores why the operator cannot read AdmissionChecks. The quota controller sets it, and the conditions of deployments whose
// Workloads wait for a check contain it.
type Denied struct{ why atomic.Value }

// Set replaces the reason, "" for none, and reports whether it changed.
func (d *Denied) Set(why string) bool {
	before, _ := d.why.Swap(why).(string)
	return before != why
}

// Why returns the reason; "" while AdmissionChecks can be decided. A nil store has none.
func (d *Denied) Why() string {
	if d == nil {
		return ""
	}
	why, _ := d.why.Load().(string)
	return why
}

// maxCheckNames bounds the names of AdmissionChecks in a message, in bytes.
const maxCheckNames = 256

// saysDenied says that a Workload waits for AdmissionChecks that Trellis may have to decide and cannot read; "" if it can read them.
func (o *Observation) saysDenied(w *Workload) string {
	names := ""
	for i := range w.Status.AdmissionChecks {
		if c := &w.Status.AdmissionChecks[i]; c.State == CheckPending {
			names += ", " + c.Name
		}
	}
	if names == "" || o.ChecksDenied == "" {
		return ""
	}
	return fmt.Sprintf("; it waits for AdmissionChecks (%s), and those of %s cannot be decided: %s",
		limit.Text(names[2:], maxCheckNames), CheckController, o.ChecksDenied)
}
