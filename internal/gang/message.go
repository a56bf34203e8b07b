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

// MaxWaitingMessage is the maximum length of a message about waiting replicas, in bytes.
const MaxWaitingMessage = 200

// maxNamed is the maximum number of replicas, or runs of consecutive replicas, that a message names.
const maxNamed = 3

// WaitingMessage returns a message with the number of wanted replicas that are placed, the most important cause of waiting, and the names
// of the replicas that wait for this cause:
//
//	3 of 8 packed replicas are placed. Worker-3..5: needs 2 pods x 8 nvidia.com/gpu in one rack inside zone-0;
//	zone-0/rack-1 holds 1 of 2; 2 more wait
//
// The message has at most [MaxWaitingMessage] bytes. Events and kubectl trellis explain show the full text of every cause.
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
	return head + who + ": " + strings.TrimPrefix(text, who+" ") + tail // the cause may begin with the replica's name
}

// namesOf names replicas, and shortens runs of consecutive replicas: "Worker-3..5", "Decode-0,1, Prefill-0 and 9 more".
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

// leading returns the waiting replica with the most important cause. A gang that never fits comes first, because waiting does not help it.
// Replicas that wait for the creation of pods or for the base gang come last, because their wait only follows from another cause.
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

// LeadingCode returns the code of the cause that [WaitingMessage] names.
func LeadingCode(waiting []Waiting) string { return leading(waiting).Code }

// LeadingNote returns the note on the cause that [WaitingMessage] names, to append to that message; "" for none. A note describes what
// Trellis does while the replica waits.
func LeadingNote(waiting []Waiting) string {
	if note := leading(waiting).Note; note != "" {
		return "; " + note
	}
	return ""
}

func (w Waiting) sameCause(other Waiting) bool {
	return w.Code == other.Code && w.Message == other.Message
}

// short returns the message, shortened to the given number of bytes.
func (w Waiting) short(most int) string {
	if w.Refusal != nil {
		return w.Refusal.Short(most)
	}
	return limit.Text(shortRefusal(w.Message, most), most)
}

// quotaError matches the API server's error about a pod that a ResourceQuota refuses. The error lists the resources that exceed the quota.
var quotaError = regexp.MustCompile(`(?s)^.*exceeded quota: ([^,]+), requested: (.+?), used: (.+?), limited: ([^;]+)`)

// refusedPod matches the start of the error of a refused create, which contains the pod's name. The cause of the error follows the match.
var refusedPod = regexp.MustCompile(`creating pod \S+(?: in place)?: (?:pods "\S+" is forbidden: )?`)

// shortRefusal shortens the error of a refused create if it exceeds the given number of bytes. It replaces the error of a ResourceQuota by
// the quota's numbers. From other errors it removes the pod's name, which precedes the cause; the caller cuts off the end.
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

// valueOf returns the value of a name in a list of NAME=VALUE; "?" if the list lacks the name.
func valueOf(list []string, name string) string {
	for _, one := range list {
		if key, value, _ := strings.Cut(strings.TrimSpace(one), "="); key == name {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}

// OrCluster returns the name of a domain in messages: "the cluster" for the empty path.
func OrCluster(p topology.Path) string {
	if len(p) == 0 {
		return "the cluster"
	}
	return p.String()
}
