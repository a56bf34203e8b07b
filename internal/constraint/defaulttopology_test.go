// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// pairs reads "a=1,b=2".
func pairs(text string) map[string]string {
	if text == "" {
		return nil
	}
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		out[key] = value
	}
	return out
}

// defaultsOf are default topologies from "name selector", the oldest first.
func defaultsOf(texts ...string) []*grovev1alpha1.ClusterTopology {
	var all []grovev1alpha1.ClusterTopology
	for i, text := range texts {
		name, selector, _ := strings.Cut(text, " ")
		ct := grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{AnnotationDefault: "true"}, CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
		}}
		ct.Spec.NodeSelector = pairs(selector)
		ct.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "zone"}, {Domain: name + "-rack", Key: name}}
		all = append(all, ct)
	}
	return Defaults(all)
}

// selecting is a component from "name selector", multinode unless the name is in lower case.
func selecting(text string) nvidiav1beta1.ComponentSpec {
	name, selector, _ := strings.Cut(text, " ")
	c := nvidiav1beta1.ComponentSpec{Name: name, PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: pairs(selector)}}}
	if strings.ToLower(name) != name {
		c.Multinode = &nvidiav1beta1.MultinodeSpec{NodeCount: 2}
	}
	return c
}

func TestFollowDefaults(t *testing.T) {
	pools := []string{"gb pool=gb", "h pool=h"}
	tests := map[string]struct {
		defaults, components, nodes []string
		want                        []string
	}{
		"one for all": {defaults: []string{"all"}, components: []string{"Decode", "front"}, want: []string{"Decode all-rack of all", "front  of all"}},
		"one pool's, for another": {
			defaults: []string{"gb pool=gb"}, components: []string{"Decode pool=h", "front"},
		},
		"that of its pool": {defaults: pools, components: []string{"Decode pool=h", "front"}, want: []string{"Decode h-rack of h", "front  of h"}},
		"each its own": {
			defaults: pools, components: []string{"Decode pool=h", "Prefill pool=gb", "front"},
			want: []string{"Decode h-rack of h", "Prefill gb-rack of gb"},
		},
		"only one of two": {
			defaults: pools, components: []string{"Decode pool=h", "Prefill pool=other", "front"}, want: []string{"Decode h-rack of h"},
		},
		"the narrower": {
			defaults: []string{"all", "h pool=h", "big pool=h,size=big"}, components: []string{"Decode pool=h,size=big", "Prefill pool=h,size=small", "Other pool=x"},
			want: []string{"Decode big-rack of big", "Prefill h-rack of h", "Other all-rack of all"},
		},
		"the narrower, not selected": {defaults: []string{"all", "h pool=h"}, components: []string{"Decode"}, want: []string{"Decode h-rack of h"}},
		"none decides":               {defaults: pools, components: []string{"Decode", "Prefill pool=h"}, want: []string{"Prefill h-rack of h", "Decode: gb or h"}},
		"nodes decide": {
			defaults: pools, components: []string{"Decode product=GB200"}, nodes: []string{"pool=gb,product=GB200", "pool=h,product=H100"},
			want: []string{"Decode gb-rack of gb"},
		},
		"nodes do not decide": {
			defaults: pools, components: []string{"Decode arch=arm"}, nodes: []string{"pool=gb,arch=arm", "pool=h,arch=arm"}, want: []string{"Decode: gb or h"},
		},
		"no nodes yet":             {defaults: pools, components: []string{"Decode pool=h"}, nodes: []string{"pool=gb"}, want: []string{"Decode h-rack of h"}},
		"the older of one pool":    {defaults: []string{"old pool=h", "new pool=h"}, components: []string{"Decode pool=h"}, want: []string{"Decode old-rack of old"}},
		"without multinode":        {defaults: pools, components: []string{"front pool=h"}},
		"without a default at all": {components: []string{"Decode"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			for _, text := range test.components {
				dgd.Spec.Components = append(dgd.Spec.Components, selecting(text))
			}
			s := Sources{Defaults: defaultsOf(test.defaults...)}
			for _, text := range test.nodes {
				s.Nodes = append(s.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: pairs(text)}})
			}
			resolved := Of(dgd, StatementOf(dgd), s)
			if diff := cmp.Diff(test.want, followed(dgd, resolved)); diff != "" {
				t.Error(diff)
			}
			// Half written by an operator that died, a component comes out as with its siblings.
			for _, c := range dgd.Spec.Components {
				frozen := resolved.Topologies[c.Name]
				if frozen == nil {
					continue
				}
				s.Frozen = map[string]*trellisv1alpha1.ResolvedTopology{c.Name: frozen}
				again := Of(dgd, StatementOf(dgd), s)
				again.Undecided = resolved.Undecided
				if diff := cmp.Diff(multinodes(dgd, resolved), multinodes(dgd, again)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// followed lists who follows what, and who nothing.
func followed(dgd *nvidiav1beta1.DynamoGraphDeployment, r Resolved) (lines []string) {
	for _, c := range dgd.Spec.Components {
		if t := r.Topologies[c.Name]; t != nil {
			lines = append(lines, fmt.Sprintf("%s %s of %s", c.Name, t.PreferredPackDomain, t.ClusterTopology))
		}
	}
	for _, u := range r.Undecided {
		lines = append(lines, u.Component+": "+strings.Join(u.Topologies, " or "))
	}
	return lines
}

// multinodes lists what the components follow that are packed by it.
func multinodes(dgd *nvidiav1beta1.DynamoGraphDeployment, r Resolved) []string {
	return slices.DeleteFunc(followed(dgd, r), func(line string) bool { return strings.HasPrefix(line, "front") })
}

// TestSuits: selectors and required affinity rule out the nodes of a topology by its labels alone.
func TestSuits(t *testing.T) {
	term := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	tests := map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  bool
	}{
		"no terms":                {want: true},
		"in":                      {terms: []corev1.NodeSelectorTerm{term("pool", corev1.NodeSelectorOpIn, "h", "gb")}, want: true},
		"in others":               {terms: []corev1.NodeSelectorTerm{term("pool", corev1.NodeSelectorOpIn, "gb")}},
		"not in":                  {terms: []corev1.NodeSelectorTerm{term("pool", corev1.NodeSelectorOpNotIn, "h")}},
		"not in others":           {terms: []corev1.NodeSelectorTerm{term("pool", corev1.NodeSelectorOpNotIn, "gb")}, want: true},
		"exists":                  {terms: []corev1.NodeSelectorTerm{term("pool", corev1.NodeSelectorOpExists)}, want: true},
		"does not exist":          {terms: []corev1.NodeSelectorTerm{term("pool", corev1.NodeSelectorOpDoesNotExist)}},
		"greater":                 {terms: []corev1.NodeSelectorTerm{term("size", corev1.NodeSelectorOpGt, "7")}, want: true},
		"not greater":             {terms: []corev1.NodeSelectorTerm{term("size", corev1.NodeSelectorOpGt, "8")}},
		"less":                    {terms: []corev1.NodeSelectorTerm{term("size", corev1.NodeSelectorOpLt, "9")}, want: true},
		"not less":                {terms: []corev1.NodeSelectorTerm{term("size", corev1.NodeSelectorOpLt, "8")}},
		"no number":               {terms: []corev1.NodeSelectorTerm{term("pool", corev1.NodeSelectorOpGt, "1")}},
		"another label":           {terms: []corev1.NodeSelectorTerm{term("x", corev1.NodeSelectorOpIn, "y")}, want: true},
		"one of two alternatives": {terms: []corev1.NodeSelectorTerm{term("pool", corev1.NodeSelectorOpIn, "gb"), term("x", corev1.NodeSelectorOpExists)}, want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if test.terms != nil {
				pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: test.terms}}}
			}
			if got := suits(pod, map[string]string{"pool": "h", "size": "8"}); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
