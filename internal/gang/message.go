// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"strings"

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// MaxWaitingMessage is the most bytes of a message about what waits.
const MaxWaitingMessage = 200

// maxNamed is how many replicas a message names.
const maxNamed = 3

// WaitingMessage says how many of the wanted replicas are placed, which of the others wait for the cause that says most, and for what:
//
//	3 of 5 packed replicas are placed. Worker-3: needs 2 pods x 8 nvidia.com/gpu in one rack inside zone-0; zone-0/rack-1 holds 1 of 2; 1 more waits
//
// It has at most [MaxWaitingMessage] bytes. Events and kubectl trellis explain have every cause whole.
func WaitingMessage(placed, wanted int, waiting []Waiting) string {
	cause := leading(waiting)
	head := fmt.Sprintf("%d of %d packed replicas are placed. ", placed, wanted)
	left := MaxWaitingMessage - len(head)
	var names []string
	same := 0
	for _, w := range waiting {
		if w.sameCause(cause) {
			same++
			if len(names) < maxNamed {
				names = append(names, fmt.Sprintf("%s-%d", w.Service, w.Ordinal))
			}
		}
	}
	who := strings.Join(names, ", ")
	if same > len(names) {
		who += fmt.Sprintf(" and %d more", same-len(names))
	}
	if len(who) > left/2 { // long names
		who = fmt.Sprintf("%d replicas", same)
	}
	tail := ""
	switch rest := len(waiting) - same; {
	case rest == 1:
		tail = "; 1 more waits"
	case rest > 1:
		tail = fmt.Sprintf("; %d more wait", rest)
	}
	return head + who + ": " + cause.short(left-len(who)-len(": ")-len(tail)) + tail
}

// leading is the cause that says most: a real shortage before a wait that only follows from another.
func leading(waiting []Waiting) Waiting {
	for _, w := range waiting {
		if w.Code != CodeCreating && w.Code != placement.CodeBaseGangWaits {
			return w
		}
	}
	return waiting[0]
}

// LeadingCode is the reason that [WaitingMessage] is about.
func LeadingCode(waiting []Waiting) string { return leading(waiting).Code }

func (w Waiting) sameCause(other Waiting) bool {
	return w.Code == other.Code && w.Message == other.Message
}

// short is the message in at most so many bytes.
func (w Waiting) short(most int) string {
	if w.Refusal != nil {
		return w.Refusal.Short(most)
	}
	return limit.Text(w.Message, most)
}
