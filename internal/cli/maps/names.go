// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// shortNames drops the common beginning of names, and a common end that is a DNS domain. With keepWord, it keeps the last word of the
// common beginning. For example, zone-a-host-1 and zone-a-host-2 become 1 and 2 or, with keepWord, host-1 and host-2.
func shortNames(names []string, keepWord bool) []string {
	if len(names) < 2 {
		return names
	}
	prefix, suffix := names[0], names[0]
	for _, n := range names {
		for !strings.HasPrefix(n, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
		for !strings.HasSuffix(n, suffix) {
			suffix = suffix[1:]
		}
	}
	prefix = wholeWords(prefix)
	if keepWord {
		prefix = wholeWords(strings.TrimRight(prefix, "-."))
	}
	cut := 0
	if dot := strings.Index(suffix, "."); dot >= 0 {
		cut = len(suffix) - dot
	}
	short := make([]string, 0, len(names))
	for _, n := range names {
		short = append(short, n[min(len(n), len(prefix)):max(min(len(n), len(prefix)+1), len(n)-cut)])
	}
	return short
}

// word matches a word before a number.
var word = regexp.MustCompile(`([a-z])[a-z]*-([0-9])`)

// labels returns the names of a rack's hosts on the map. If a name is too long, each word before a number is abbreviated to one letter
// (zone-0-rack-2-host-7 becomes z0-r2-h7), unless this makes names equal. A name that is still too long is reduced to its end. If words is
// false, only the differing parts of the names remain.
func labels(names []string, words bool) []string {
	names = slices.Clone(shortNames(names, words))
	long := func(n string) bool { return len([]rune(n)) > maxLabel }
	if slices.ContainsFunc(names, long) {
		brief := make([]string, 0, len(names))
		for _, n := range names {
			brief = append(brief, word.ReplaceAllString(n, "$1$2"))
		}
		if different(brief) == different(names) {
			names = brief
		}
	}
	for i, n := range names {
		if long(n) {
			r := []rune(n)
			names[i] = "\u2026" + string(r[len(r)-maxLabel+1:])
		}
	}
	return names
}

// different counts the distinct names.
func different(names []string) int { return sets.New(names...).Len() }

// wholeWords cuts off the last word of a prefix, which may be incomplete.
func wholeWords(prefix string) string { return prefix[:strings.LastIndexAny(prefix, "-.")+1] }

// unit returns the name of the counted resource.
func (m *Map) unit() string {
	if strings.HasSuffix(m.Resource, "/gpu") {
		return "GPUs"
	}
	return cmp.Or(m.Resource, "pods")
}

// podText describes a pod.
func (m *Map) podText(p *tree.Pod) string {
	amount := ""
	if p.Amount > 0 {
		amount = fmt.Sprintf(", %d %s", p.Amount, m.unit())
	}
	if p.Graph == "" {
		return p.Namespace + "/" + p.Name + amount
	}
	words := fmt.Sprintf("%s: %s-%d", m.NameOf(p.Namespace, p.Graph), p.Component, p.Replica)
	switch p.Role {
	case "leader":
		words += " leader"
	case "worker":
		words += fmt.Sprintf(" worker %d", p.Index)
	}
	if words += amount; p.State != "" {
		words += ", " + p.State
	}
	return words
}

// gangs names the waiting replicas: "Worker-0..2, Router-1".
func gangs(list []explain.Gangs) string {
	parts := make([]string, 0, len(list))
	for _, g := range list {
		parts = append(parts, g.Component+"-"+text.Ranges(g.Replicas))
	}
	return strings.Join(parts, ", ")
}
