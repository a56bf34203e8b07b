// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"sync/atomic"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// Denied stores the reason why the operator cannot read AdmissionChecks. The quota controller sets the reason. It appears in the conditions
// of deployments whose Workloads wait for a check.
type Denied struct{ why atomic.Value }

// Set replaces the reason, "" for none, and reports whether the reason changed.
func (d *Denied) Set(why string) bool {
	before, _ := d.why.Swap(why).(string)
	return before != why
}

// Why returns the reason; "" while the operator can read AdmissionChecks. A nil store has no reason.
func (d *Denied) Why() string {
	if d == nil {
		return ""
	}
	why, _ := d.why.Load().(string)
	return why
}

// maxCheckNames bounds the length of the AdmissionCheck names in a message, in bytes.
const maxCheckNames = 256

// saysDenied returns a message if a Workload waits for AdmissionChecks that Trellis may have to set but cannot read; otherwise "".
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
