// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import "strings"

// advice renders the advice in full, because readers act on it. Each command stays on one line, so that readers can copy it.
func (s setting) advice(r *Explanation) string {
	if len(r.Advice)+len(r.Withheld) == 0 {
		return ""
	}
	var b strings.Builder
	heading := "WHAT HELPS"
	if len(r.Advice) == 0 {
		heading = "WHAT DOES NOT HELP"
	}
	b.WriteString(s.Head(heading) + "\n")
	for _, one := range r.Advice {
		b.WriteString(s.Wrap(one.Effect, "  ") + "\n")
		for _, command := range one.Commands {
			b.WriteString("  " + command + "\n")
		}
		for _, text := range one.Manual {
			b.WriteString(s.Wrap("  "+text, "    ") + "\n")
		}
	}
	for _, text := range r.Withheld {
		b.WriteString(s.Wrap(text, "  ") + "\n")
	}
	return b.String()
}
