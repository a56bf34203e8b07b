// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strings"

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// short reports whether capacity is what the gang lacks, by a search that came to its end.
func (r *Refusal) short() bool { return r.Code == CodeInsufficientCapacity || r.Code == CodeNeverFits }

// causes is what binds a gang where the numbers do not show it, with a separator behind: an object that is not there, the size of the
// cluster's domains, the anchor of its graph, or its topology's node selector. A reader who has it can act; so it comes before the
// numbers, in the whole message and in the short one.
func (r *Refusal) causes() string {
	causes := ""
	for _, text := range []string{r.Blocked, r.WhyNever(), r.spreadText(), r.elsewhereText(), r.innermost().leftOutText()} {
		if text != "" {
			causes += text + "; "
		}
	}
	return causes
}

// Short is Message in at most so many bytes: it leaves out the hosts first, then what the closest domain holds, then what the gang needs
// where there is a cause. Where a rule keeps the pods off most hosts, which names what is in the way, it comes before what the gang needs.
func (r *Refusal) Short(most int) string {
	if r.Code == CodeBaseGangWaits {
		return limit.Text(r.waitsText(), most)
	}
	full := r.sentence()
	if !r.short() || len(full) <= most {
		return limit.Text(full, most)
	}
	causes := r.causes()
	if causes == "" && r.Cause != nil && r.Cause.Level > r.Level { // what does not fit is in a narrower domain
		gang := name(r.Cause.Gang) + " "
		return gang + r.Cause.Short(most-len(gang))
	}
	for _, text := range r.shorter(causes) {
		if len(text) <= most {
			return text
		}
	}
	if causes == "" {
		causes = r.needText()
	}
	return limit.Text(causes, most)
}

// shorter are forms of the message, the longest first.
func (r *Refusal) shorter(causes string) []string {
	bare := Refusal{Need: r.Need, Apart: r.Apart, Level: r.Level, LevelName: r.LevelName, Within: r.Within}
	if c := r.Closest; c != nil && r.Code != CodeNeverFits {
		bare.Closest = &Closest{Domain: c.Domain, Holds: c.Holds, Of: c.Of}
	}
	forms := append(r.bracketed(causes, &bare), causes+bare.needText()+bare.closestText(), causes+bare.needText())
	if causes == "" {
		return append(r.ruledForms(&bare), forms...)
	}
	if len(r.Elsewhere) > 0 && r.Level > r.Within.Level() { // the cause names the domain
		anywhere := Refusal{Need: r.Need, Apart: r.Apart, Level: r.Level, LevelName: r.LevelName, Within: topology.Path{}}
		forms = append(forms, causes+anywhere.needText())
	}
	forms = append(forms, strings.TrimSuffix(causes, "; "))
	if len(r.Elsewhere) > 0 {
		forms = append(forms, anchored)
	}
	return forms
}

// bracketed are forms with the hosts that take no pod, without the other domains: first with all that is needed, then without the domain
// around, which the closest one is in.
func (r *Refusal) bracketed(causes string, bare *Refusal) []string {
	if bare.Closest == nil {
		return nil
	}
	full := *bare
	full.Closest = r.Closest
	forms := []string{causes + full.needText() + full.closestText()}
	if len(r.Within) > 0 && r.Level > r.Within.Level() {
		anywhere := *bare
		anywhere.Within = nil
		forms = append(forms, causes+anywhere.needText()+full.closestText())
	}
	return forms
}

// ruledForms are forms with the rule that keeps the pods off most hosts: "zone-a holds 0 of 2 (2 hosts volume claim cache is bound
// elsewhere)".
func (r *Refusal) ruledForms(bare *Refusal) []string {
	if bare.Closest == nil || len(r.Closest.Excluded) == 0 || r.Closest.Excluded[0].Reason.Kind != topology.KindRule {
		return nil
	}
	ruled, domain, who := *bare, *bare.Closest, "the cluster"
	if len(domain.Domain) > 0 {
		who = pathText(domain.Domain)
	}
	domain.Excluded, ruled.Closest = r.Closest.Excluded[:1], &domain
	return []string{
		ruled.needText() + ruled.closestText(),
		fmt.Sprintf("%s holds %d of %d (%s)", who, domain.Holds, domain.Of, domain.details()),
	}
}
