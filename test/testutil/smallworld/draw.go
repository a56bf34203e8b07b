// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package smallworld

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Draw draws a world with rules about other pods.
func Draw(t *rapid.T) World {
	w := drawWorld(t)
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		w.Nodes = append(w.Nodes, drawNode(t, i))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "bound") {
		p := drawPod(t, "bound-"+strconv.Itoa(i), 0)
		p.Spec.NodeName = rapid.SampledFrom(w.Nodes).Draw(t, "on").Name
		w.Bound = append(w.Bound, p)
	}
	for shape := range rapid.IntRange(1, 2).Draw(t, "shapes") {
		like := drawPod(t, "", rapid.IntRange(0, 2).Draw(t, "gpus"))
		like.Namespace = "ns"
		for i := range rapid.IntRange(1, 2).Draw(t, "pods") {
			p := like.DeepCopy()
			p.Name = fmt.Sprintf("pod-%d-%d", shape, i)
			w.Gang = append(w.Gang, p)
		}
	}
	return w
}

// drawWorld draws the level of which one domain must hold the gang: none, or the broadest.
func drawWorld(t *rapid.T) World {
	return World{Required: rapid.SampledFrom([]int{topology.NoLevel, topology.NoLevel, 0}).Draw(t, "required")}
}

func drawNode(t *rapid.T, i int) *corev1.Node {
	name := "n" + strconv.Itoa(i)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{
				gpu: resource.MustParse(strconv.Itoa(rapid.IntRange(0, 3).Draw(t, name+" gpus"))), corev1.ResourcePods: resource.MustParse("10"),
			},
		},
	}
	if z := rapid.IntRange(0, 2).Draw(t, name+" zone"); z > 0 {
		n.Labels[zone] = "z" + strconv.Itoa(z)
		if r := rapid.IntRange(0, 2).Draw(t, name+" rack"); r > 0 {
			n.Labels[rack] = fmt.Sprintf("z%dr%d", z, r)
		}
	}
	if rapid.Bool().Draw(t, name+" pool") {
		n.Labels["pool"] = "x"
	}
	if rapid.IntRange(0, 5).Draw(t, name+" tainted") == 0 {
		n.Spec.Taints = []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

func drawPod(t *rapid.T, name string, gpus int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rapid.SampledFrom([]string{"ns", "ns", "other"}).Draw(t, name+" namespace"), Name: name,
			Labels: map[string]string{"app": rapid.SampledFrom(apps).Draw(t, name+" app")},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{gpu: resource.MustParse(strconv.Itoa(gpus))}}}}},
	}
	if rapid.IntRange(0, 3).Draw(t, name+" tolerates") == 0 {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "t", Operator: corev1.TolerationOpExists}}
	}
	if rapid.IntRange(0, 4).Draw(t, name+" selects") == 0 {
		p.Spec.NodeSelector = map[string]string{"pool": "x"}
	}
	a := &corev1.Affinity{}
	if terms := drawTerms(t, name+" near"); len(terms) > 0 {
		a.PodAffinity, p.Spec.Affinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}, a
	}
	if terms := drawTerms(t, name+" away"); len(terms) > 0 {
		a.PodAntiAffinity, p.Spec.Affinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}, a
	}
	for i := range rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, name+" spreads") {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, drawSpread(t, fmt.Sprintf("%s spread %d", name, i)))
	}
	return p
}

func drawTerms(t *rapid.T, name string) (terms []corev1.PodAffinityTerm) {
	for i := range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, name) {
		label := name + strconv.Itoa(i)
		one := corev1.PodAffinityTerm{TopologyKey: rapid.SampledFrom(keys).Draw(t, label+" key"), LabelSelector: drawSelector(t, label)}
		switch rapid.IntRange(0, 5).Draw(t, label+" namespaces") {
		case 0:
			one.NamespaceSelector = &metav1.LabelSelector{}
		case 1:
			one.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "y"}}
		case 2:
			one.Namespaces = []string{"other"}
		}
		terms = append(terms, one)
	}
	return terms
}

func drawSelector(t *rapid.T, name string) *metav1.LabelSelector {
	switch rapid.IntRange(0, 9).Draw(t, name+" selector") {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": rapid.SampledFrom(apps).Draw(t, name+" about")}}
}

func drawSpread(t *rapid.T, name string) corev1.TopologySpreadConstraint {
	policy := func(label string) *corev1.NodeInclusionPolicy {
		return rapid.SampledFrom([]*corev1.NodeInclusionPolicy{nil, ptr.To(corev1.NodeInclusionPolicyHonor),
			ptr.To(corev1.NodeInclusionPolicyIgnore)}).
			Draw(t, name+label)
	}
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(rapid.IntRange(1, 2).Draw(t, name+" skew")), TopologyKey: rapid.SampledFrom(keys).Draw(t, name+" key"),
		WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: drawSelector(t, name), NodeAffinityPolicy: policy(" affinity"),
		NodeTaintsPolicy: policy(" taints"),
	}
	if rapid.IntRange(0, 3).Draw(t, name+" counts") == 0 {
		c.MinDomains = ptr.To(int32(rapid.IntRange(1, 3).Draw(t, name+" domains")))
	}
	if rapid.IntRange(0, 3).Draw(t, name+" by label") == 0 {
		c.MatchLabelKeys = []string{"app"}
	}
	return c
}
