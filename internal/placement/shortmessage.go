// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strings"

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// short reports whether a completed search has shown that the gang lacks capacity.
func (r *Refusal) short() bool { return r.Code == CodeInsufficientCapacity || r.Code == CodeNeverFits }

// causes lists the causes of a refusal, each with a trailing separator: a missing object, the size of the cluster's domains, the spread of
// the replicas, the anchor of the graph, or the topology's node selector. Users can act on these causes, so they precede the numbers in
// both messages.
func (r *Refusal) causes() string {
	causes := ""
	for _, text := range []string{r.Blocked, r.WhyNever(), r.spreadText(), r.elsewhereText(), r.innermost().leftOutText()} {
		if text != "" {
			causes += text + "; "
		}
	}
	return causes
}

// Short returns the message in at most the given number of bytes. To shorten it, Short first omits the excluded hosts, then the numbers of
// the closest domain. If there is a cause, Short then omits the requests. If a rule keeps the pods off most hosts, Short omits the requests
// rather than the rule, because the rule is the obstacle.
func (r *Refusal) Short(most int) string {
	if r.Code == CodeBaseGangWaits {
		return limit.Text(r.waitsText(), most)
	}
	full := r.sentence()
	if !r.short() || len(full) <= most {
		return limit.Text(full, most)
	}
	causes := r.causes()
	if causes == "" && r.Cause != nil && r.Cause.Level > r.Level { // the part that does not fit is in a narrower domain
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

// shorter returns shorter forms of the message, the longest first.
func (r *Refusal) shorter(causes string) []string {
	bare := Refusal{Need: r.Need, Apart: r.Apart, Paired: r.Paired, Level: r.Level, LevelName: r.LevelName, Within: r.Within}
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

// bracketed returns forms that list the excluded hosts in brackets and omit the other domains. The first form states the entire request.
// The second form omits the surrounding domain, which the path of the closest domain shows.
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

// ruledForms returns forms that state the rule that keeps the pods off most hosts: "zone-a holds 0 of 2 (2 hosts volume claim cache is
// bound elsewhere)".
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
