// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

func TestStrategy(t *testing.T) {
	type values = map[string]string
	cases := map[string]struct {
		annotations values
		packed      bool
		// replicas and what may be missing and more of them.
		replicas int32
		want     string
	}{
		"packed":                             {packed: true, replicas: 8, want: "U=1 S=0"},
		"not packed: a quarter each":         {replicas: 8, want: "U=2 S=2"},
		"rounding as Deployments do":         {replicas: 5, want: "U=1 S=2"},
		"one replica":                        {replicas: 1, want: "U=0 S=1"},
		"none":                               {replicas: 0, want: "U=1 S=0"},
		"given":                              {annotations: values{AnnotationMaxSurge: "2", AnnotationMaxUnavailable: "50%"}, packed: true, replicas: 5, want: "U=2 S=2"},
		"both come to 0":                     {annotations: values{AnnotationMaxSurge: "0", AnnotationMaxUnavailable: "10%"}, replicas: 3, want: "U=1 S=0"},
		"nothing may be missing: one more":   {annotations: values{AnnotationMaxUnavailable: "0"}, packed: true, replicas: 3, want: "U=0 S=1"},
		"rolling, said":                      {annotations: values{AnnotationStrategy: StrategyRollingUpdate}, packed: true, replicas: 3, want: "U=1 S=0"},
		"recreate":                           {annotations: values{AnnotationStrategy: StrategyRecreate}, packed: true, replicas: 3, want: "U=1 S=0 recreate"},
		"recreate needs no bounds":           {annotations: values{AnnotationStrategy: StrategyRecreate, AnnotationMaxSurge: "0", AnnotationMaxUnavailable: "0"}, replicas: 3, want: "U=1 S=0 recreate"},
		"a percentage beyond all replicas":   {annotations: values{AnnotationMaxUnavailable: "100%"}, replicas: 3, want: "U=3 S=1"},
		"a number that is none":              {annotations: values{AnnotationMaxSurge: "1.5"}, replicas: 3, want: "problem " + AnnotationMaxSurge},
		"a number too large":                 {annotations: values{AnnotationMaxSurge: "99999999999999999999%"}, replicas: 3, want: "problem " + AnnotationMaxSurge},
		"both 0":                             {annotations: values{AnnotationMaxSurge: "0%", AnnotationMaxUnavailable: "0"}, replicas: 3, want: "problem " + AnnotationMaxSurge},
		"another strategy is not understood": {annotations: values{AnnotationStrategy: "OnDelete"}, replicas: 3, want: "problem " + AnnotationStrategy},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			strategy, problems := StrategyOf(c.annotations, c.packed)
			sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Replicas: c.replicas, Rollout: &strategy}}
			g := For(sg)
			got := fmt.Sprintf("U=%d S=%d", g.MaxUnavailable, g.MaxSurge)
			if g.Recreate {
				got += " recreate"
			}
			if len(problems) > 0 {
				got = "problem " + problems[0].Annotation
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestSharedStrategy: all workers of a deployment have bounds of their own names, and the same defaults.
func TestSharedStrategy(t *testing.T) {
	cases := map[string]struct {
		annotations map[string]string
		packed      bool
		want        string
	}{
		"packed":                           {packed: true, want: "U=1 S=0"},
		"not packed":                       {want: "U=25% S=25%"},
		"given":                            {annotations: map[string]string{AnnotationSharedMaxSurge: "2", AnnotationSharedMaxUnavailable: "50%"}, want: "U=50% S=2"},
		"nothing may be missing: one more": {annotations: map[string]string{AnnotationSharedMaxUnavailable: "0"}, packed: true, want: "U=0 S=1"},
		"of a component":                   {annotations: map[string]string{AnnotationMaxSurge: "2"}, packed: true, want: "U=1 S=0"},
		"no number":                        {annotations: map[string]string{AnnotationSharedMaxSurge: "x"}, want: "problem " + AnnotationSharedMaxSurge},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			dgd.Annotations = c.annotations
			strategy, problems := SharedStrategyOf(dgd, c.packed)
			got := fmt.Sprintf("U=%s S=%s", strategy.MaxUnavailable.String(), strategy.MaxSurge.String())
			if len(problems) > 0 {
				got = "problem " + problems[0].Annotation
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestStepOfAGroup: a step has bounds of its own, which take the place of the strategy's.
func TestStepOfAGroup(t *testing.T) {
	strategy, _ := StrategyOf(nil, true)
	sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{
		Replicas: 4, Rollout: &strategy, Step: &trellisv1alpha1.RolloutStep{Keep: 2, Make: 3, MaxSurge: 2},
	}}
	want := Group{Replicas: 4, MaxSurge: 2, Step: &Step{Keep: 2, Make: 3, Bounds: Bounds{MaxSurge: 2}}}
	if diff := cmp.Diff(want, For(sg)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnnotationsOf(t *testing.T) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Annotations = map[string]string{AnnotationStrategy: StrategyRecreate, AnnotationMaxSurge: "1", AnnotationMaxUnavailable: "1", "other": "x"}
	dgd.Spec.Annotations = map[string]string{AnnotationMaxSurge: "2", AnnotationMaxUnavailable: "2"}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "own", PodTemplate: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationMaxUnavailable: "3"}}}}, {Name: "none"}}
	want := map[string]string{AnnotationStrategy: StrategyRecreate, AnnotationMaxSurge: "2", AnnotationMaxUnavailable: "3"}
	if diff := cmp.Diff(want, AnnotationsOf(dgd, dgd.Component("own"))); diff != "" {
		t.Error(diff)
	}
	want[AnnotationMaxUnavailable] = "2"
	if diff := cmp.Diff(want, AnnotationsOf(dgd, dgd.Component("none"))); diff != "" {
		t.Error(diff)
	}
}
