// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"sync/atomic"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// Denied is why the operator cannot look at AdmissionChecks. The controller that looks for them sets it, and the conditions of deployments
// whose Workloads wait for a check contain it.
type Denied struct{ why atomic.Value }

// Set replaces the reason, "" for none, and reports whether it was another.
func (d *Denied) Set(why string) bool {
	before, _ := d.why.Swap(why).(string)
	return before != why
}

// Why is the reason; "" while AdmissionChecks can be decided. A nil store has none.
func (d *Denied) Why() string {
	if d == nil {
		return ""
	}
	why, _ := d.why.Load().(string)
	return why
}

// maxCheckNames is how much of the names of AdmissionChecks a message has, in bytes.
const maxCheckNames = 256

// saysDenied says that a Workload waits for AdmissionChecks, which may be of Trellis, and that these cannot be decided; "" while they can.
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
