// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bounds that keep a message readable on any cluster.
const (
	// MaxMessage is the maximum length of a message in bytes.
	MaxMessage   = 1024
	maxNeeds     = 3
	maxReasons   = 4
	maxPathBytes = 160
	maxNameBytes = 80
)

// keepShort drops the resources that are sufficient in total and on the largest host.
func keepShort(list []Short) []Short {
	return slices.DeleteFunc(list, func(s Short) bool { return s.Have >= s.Need && s.Largest >= s.Each })
}

// Message puts the refusal in one sentence of at most [MaxMessage] bytes:
//
//	needs 4 pods x 8 nvidia.com/gpu in one rack; zone-0/block-1/rack-2 holds 3 of 4 (1 host cordoned); 11 other racks hold fewer
func (r *Refusal) Message() string {
	return limit.Text(r.sentence(), MaxMessage)
}

// sentence returns the causes of the refusal, followed by the numbers.
func (r *Refusal) sentence() string { return r.causes() + r.numbers() }

// numbers states the requests of the gang and how many pods the closest domain holds.
func (r *Refusal) numbers() string {
	switch r.Code {
	case CodeLevelGone:
		return "needs one domain of a level that the topology does not have any more"
	case CodeDomainGone:
		return fmt.Sprintf("%s, where members of the graph are pinned, has no nodes any more; "+
			"the graph can move when all of these members are gone", pathText(r.Within))
	case CodeNoDomain:
		if r.Never != nil {
			return r.needText()
		}
		return fmt.Sprintf("%s; no node%s carries the labels of level %s", r.needText(), inside(r.Within), name(r.LevelName))
	case CodeAnchorConflict:
		return fmt.Sprintf("pods are pinned to %s, which lies outside of %s, where the rest of the graph is pinned",
			pathText(r.Closest.Domain), pathText(r.Within))
	case CodeNoPartner:
		return fmt.Sprintf("needs a %s replica in its %s; none is placed, and none is ready to be placed with it", name(r.Partner),
			name(r.LevelName))
	case CodeBaseGangWaits:
		return r.waitsText() + r.awaitedText()
	}
	text := r.needText()
	switch {
	case r.Code == CodeNeverFits, r.Blocked != "" && r.Code == CodeInsufficientCapacity:
		return text // the closest domain is irrelevant
	case r.Compared > 0:
		text += fmt.Sprintf("; the plan of the graph stopped after %d comparisons of its pods with hosts, without an answer", r.Compared)
	case r.Code == CodeBudgetExhausted:
		text += fmt.Sprintf("; the search stopped after %d steps without an answer", r.Steps)
	}
	return text + r.closestText()
}

// waitsText names what a replica waits for: the base gang, or the first replicas of its component.
func (r *Refusal) waitsText() string {
	if r.Gang == "" || r.Gang == baseGang {
		return "waits for the " + baseGang
	}
	return "waits for the first replicas of " + name(r.Gang)
}

// awaitedText states why the awaited gang is not placed.
func (r *Refusal) awaitedText() string {
	switch {
	case r.Cause == nil:
		return ""
	case r.Cause.Gang == "" || cmp.Or(r.Gang, baseGang) == r.Cause.Gang: // the gang is already named
		return ": " + r.Cause.sentence()
	}
	return ": " + name(r.Cause.Gang) + " " + r.Cause.sentence()
}

// needText returns for example "needs 4 pods x 8 nvidia.com/gpu in one rack".
func (r *Refusal) needText() string {
	parts := make([]string, 0, maxNeeds+1)
	for i, n := range r.Need {
		if i == maxNeeds && len(r.Need) > maxNeeds+1 {
			rest := 0
			for _, m := range r.Need[i:] {
				rest += m.Pods
			}
			parts = append(parts, fmt.Sprintf("%d pods of %d other shapes", rest, len(r.Need)-i))
			break
		}
		parts = append(parts, plural(n.Pods, "pod")+" x "+requestsText(n.Requests))
	}
	where := " in one " + name(r.LevelName) + inside(r.Within)
	switch {
	case r.Level == topology.NoLevel:
		where = " in the cluster"
	case r.Level == r.Within.Level():
		where = " in " + pathText(r.Within)
	}
	if r.Apart {
		where = " on hosts of their own" + where
	}
	if r.Paired {
		where += ", prefill alongside decode"
	}
	return "needs " + strings.Join(parts, " + ") + where
}

// closestText returns for example "; zone-0/block-1/rack-2 holds 3 of 4 (1 host cordoned); 11 other racks hold fewer".
func (r *Refusal) closestText() string {
	c := r.Closest
	if c == nil {
		return ""
	}
	who := pathText(c.Domain)
	if len(c.Domain) == 0 || c.Domain.Equal(r.Within) {
		who = "it"
	}
	text := fmt.Sprintf("; %s holds %d of %d", who, c.Holds, c.Of)
	if details := c.details(); details != "" {
		text += " (" + details + ")"
	}
	if r.OthersEqual > 0 {
		text += fmt.Sprintf("; %s no more", others(r.OthersEqual, r.LevelName))
	}
	if r.OthersFewer > 0 {
		text += fmt.Sprintf("; %s fewer", others(r.OthersFewer, r.LevelName))
	}
	if r.Cause != nil {
		text += "; there " + name(r.Cause.Gang) + " " + r.Cause.numbers()
	}
	return text
}

// details lists how many hosts are excluded for each reason. It adds each short resource whose free amount in the domain suffices for one
// pod, if no host has enough of it for one pod, or if hosts are excluded only for lack of resources.
func (c *Closest) details() string {
	var parts []string
	barred := false
	for i, e := range c.Excluded {
		barred = barred || e.Reason.Kind != topology.KindResource
		if i == maxReasons {
			rest := 0
			for _, x := range c.Excluded[i:] {
				rest += x.Hosts
			}
			parts = append(parts, plural(rest, "host")+" for other reasons")
			break
		}
		parts = append(parts, plural(e.Hosts, "host")+" "+name(e.Reason.String()))
	}
	for _, s := range c.Short {
		if scattered := s.Have >= s.Each && s.Largest < s.Each; scattered || s.Have >= s.Each && !barred {
			parts = append(parts, s.text())
		}
	}
	return strings.Join(parts, ", ")
}

// text returns for example "12 of 32 nvidia.com/gpu free, at most 6 on one host".
func (s Short) text() string {
	text := fmt.Sprintf("%s of %s %s free", amountText(s.Resource, s.Have), amountText(s.Resource, s.Need), name(s.Resource))
	if s.Largest < s.Each {
		text += fmt.Sprintf(", at most %s on one host", amountText(s.Resource, s.Largest))
	}
	return text
}

// requestsText lists the requests for extended resources, which are usually the scarcest. It lists cpu and memory only if no extended
// resource is requested.
func requestsText(requests []topology.Request) string {
	var extended, plain []string
	for _, r := range requests {
		text := amountText(r.Name, r.Amount) + " " + name(r.Name)
		if strings.Contains(r.Name, "/") {
			extended = append(extended, text)
		} else {
			plain = append(plain, text)
		}
	}
	if len(extended) == 0 {
		extended = plain
	}
	switch {
	case len(extended) == 0:
		return "no requests"
	case len(extended) > maxNeeds:
		extended = append(extended[:maxNeeds], "...")
	}
	if len(extended) > 1 {
		return "(" + strings.Join(extended, ", ") + ")"
	}
	return extended[0]
}

// allRequestsText lists all requested resources.
func allRequestsText(requests []topology.Request) string {
	parts := make([]string, 0, len(requests))
	for _, r := range requests {
		parts = append(parts, amountText(r.Name, r.Amount)+" "+name(r.Name))
	}
	return strings.Join(parts, " and ")
}

// Amount formats an amount of a resource for messages, with a unit for cpu and for bytes. It expects an amount of cpu in thousandths.
func Amount(resource string, amount int64) string { return amountText(resource, amount) }

func amountText(name string, amount int64) string {
	switch {
	case name == string(corev1.ResourceCPU):
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	case name == string(corev1.ResourceMemory), name == string(corev1.ResourceEphemeralStorage), strings.HasPrefix(name,
		corev1.ResourceHugePagesPrefix):
		return resource.NewQuantity(amount, resource.BinarySI).String()
	}
	return fmt.Sprint(amount)
}

func inside(p topology.Path) string {
	if len(p) == 0 {
		return ""
	}
	return " inside " + pathText(p)
}

// pathText shortens a path in the middle, because both ends are the most significant parts.
func pathText(p topology.Path) string {
	text := p.String()
	if len(text) <= maxPathBytes {
		return text
	}
	return limit.Text(text, maxPathBytes/2) + cutLeft(text, maxPathBytes/2)
}

func name(s string) string { return limit.Text(s, maxNameBytes) }

func others(n int, level string) string {
	if n == 1 {
		return "1 other " + name(level) + " holds"
	}
	return fmt.Sprintf("%d other %ss hold", n, name(level))
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// cutLeft returns at most the last limit bytes of a text, starting at a whole character.
func cutLeft(s string, limit int) string {
	start := len(s) - limit
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[start:]
}
