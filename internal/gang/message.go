// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// MaxWaitingMessage is the most bytes of a message about what waits.
const MaxWaitingMessage = 200

// maxNamed is how many replicas, or runs of neighbours, a message names.
const maxNamed = 3

// WaitingMessage describes how many of the wanted replicas are placed, which of the others wait for the cause that says most, and for what:
//
//	3 of 8 packed replicas are placed. Worker-3..5: needs 2 pods x 8 nvidia.com/gpu in one rack inside zone-0; zone-0/rack-1 holds 1 of 2; 2 more wait
//
// It has at most [MaxWaitingMessage] bytes. Events and kubectl trellis explain have every cause whole.
func WaitingMessage(placed, wanted int, waiting []Waiting) string {
	cause := leading(waiting)
	head := fmt.Sprintf("%d of %d packed replicas are placed. ", placed, wanted)
	left := MaxWaitingMessage - len(head)
	var same []Waiting
	for _, w := range waiting {
		if w.sameCause(cause) {
			same = append(same, w)
		}
	}
	who := namesOf(same)
	if len(who) > left/2 { // long names
		who = fmt.Sprintf("%d replicas", len(same))
	}
	tail := ""
	switch rest := len(waiting) - len(same); {
	case rest == 1:
		tail = "; 1 more waits"
	case rest > 1:
		tail = fmt.Sprintf("; %d more wait", rest)
	}
	text := cause.short(left - len(who) - len(": ") - len(tail))
	return head + who + ": " + strings.TrimPrefix(text, who+" ") + tail // what does not fit may be the replica itself
}

// namesOf names replicas, neighbours together: "Worker-3..5", "Decode-0,1, Prefill-0 and 9 more".
func namesOf(list []Waiting) string {
	var b strings.Builder
	i := 0
	for range maxNamed {
		if i == len(list) {
			break
		}
		switch {
		case i == 0:
			b.WriteString(list[i].Component + "-")
		case list[i].Component == list[i-1].Component:
			b.WriteString(",")
		default:
			b.WriteString(", " + list[i].Component + "-")
		}
		last := i
		for last+1 < len(list) && list[last+1].Component == list[i].Component && list[last+1].Ordinal == list[last].Ordinal+1 {
			last++
		}
		b.WriteString(strconv.Itoa(list[i].Ordinal))
		switch {
		case last == i+1:
			fmt.Fprintf(&b, ",%d", list[last].Ordinal)
		case last > i:
			fmt.Fprintf(&b, "..%d", list[last].Ordinal)
		}
		i = last + 1
	}
	if i < len(list) {
		fmt.Fprintf(&b, " and %d more", len(list)-i)
	}
	return b.String()
}

// leading is the cause that says most: one that no waiting ends before all others, and a real shortage before a wait that only follows
// from another.
func leading(waiting []Waiting) Waiting {
	if i := slices.IndexFunc(waiting, func(w Waiting) bool {
		return w.Code == placement.CodeNeverFits || w.Refusal != nil && w.Refusal.Never != nil
	}); i >= 0 {
		return waiting[i]
	}
	for _, w := range waiting {
		if w.Code != CodeCreating && w.Code != placement.CodeBaseGangWaits {
			return w
		}
	}
	return waiting[0]
}

// LeadingCode is the reason that [WaitingMessage] is about.
func LeadingCode(waiting []Waiting) string { return leading(waiting).Code }

// LeadingNote is what is done meanwhile for the replicas that [WaitingMessage] is about, to follow it; "" for nothing.
func LeadingNote(waiting []Waiting) string {
	if note := leading(waiting).Note; note != "" {
		return "; " + note
	}
	return ""
}

func (w Waiting) sameCause(other Waiting) bool {
	return w.Code == other.Code && w.Message == other.Message
}

// short is the message in at most so many bytes.
func (w Waiting) short(most int) string {
	if w.Refusal != nil {
		return w.Refusal.Short(most)
	}
	return limit.Text(shortRefusal(w.Message, most), most)
}

// quotaError is what the API server says of a ResourceQuota that refuses a pod. It lists the resources that the quota lacks.
var quotaError = regexp.MustCompile(`(?s)^.*exceeded quota: ([^,]+), requested: (.+?), used: (.+?), limited: ([^;]+)`)

// refusedPod is what precedes the cause in the error of a refused create.
var refusedPod = regexp.MustCompile(`creating pod \S+(?: in place)?: (?:pods "\S+" is forbidden: )?`)

// shortRefusal is the error of a refused create without the pods that it names, where the whole text is longer than so many bytes: they
// precede the cause, and a text that is cut would lose the cause. The error of a ResourceQuota is given by its numbers.
func shortRefusal(text string, most int) string {
	if len(text) <= most {
		return text
	}
	found := quotaError.FindStringSubmatch(text)
	if found == nil {
		return refusedPod.ReplaceAllString(text, "")
	}
	requested, used, limited := strings.Split(found[2], ","), strings.Split(found[3], ","), strings.Split(found[4], ",")
	name, amount, _ := strings.Cut(requested[0], "=")
	short := fmt.Sprintf("quota %s: %s=%s requested, %s of %s used", found[1], name, amount, valueOf(used, name), valueOf(limited, name))
	if more := len(requested) - 1; more > 0 {
		short += fmt.Sprintf(", and %d more", more)
	}
	return short + text[len(found[0]):]
}

// valueOf is the value of a name in a list of NAME=VALUE.
func valueOf(list []string, name string) string {
	for _, one := range list {
		if key, value, _ := strings.Cut(strings.TrimSpace(one), "="); key == name {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}

// OrCluster names a domain for messages.
func OrCluster(p topology.Path) string {
	if len(p) == 0 {
		return "the cluster"
	}
	return p.String()
}
