// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package providertest makes scaling groups for tests from deployments as users write them, and sketches the objects rendered from them in
// a few lines that can be read alongside the deployment.
package providertest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// Topology returns the topology of the tests' deployments, under the name that every version of Grove accepts.
func Topology() *grovev1alpha1.ClusterTopology {
	ct := &grovev1alpha1.ClusterTopology{}
	ct.Name, ct.UID = "grove-topology", "topology-uid"
	for _, domain := range []string{"zone", "block", "rack"} {
		ct.Spec.Levels = append(ct.Spec.Levels, grovev1alpha1.TopologyLevel{Domain: domain, Key: "example.com/" + domain})
	}
	ct.Spec.Levels = append(ct.Spec.Levels, grovev1alpha1.TopologyLevel{Domain: "host", Key: corev1.LabelHostname})
	return ct
}

// Deployment reads a v1alpha1 deployment from YAML.
func Deployment(t testing.TB, text string) *nvidiav1beta1.DynamoGraphDeployment {
	t.Helper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	if err := yaml.UnmarshalStrict([]byte(text), dgd); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return hub.Of(dgd)
}

// Groups resolves a deployment into its scaling groups.
func Groups(t testing.TB, dgd *nvidiav1beta1.DynamoGraphDeployment, provider string) []*trellisv1alpha1.ScalingGroup {
	t.Helper()
	g, err := render.Resolve(dgd, render.Inputs{Topology: Topology(), Provider: provider})
	if err != nil {
		t.Fatal(err)
	}
	return g.ScalingGroups()
}

// KAI returns the deployment as the input of KAI's renderer.
func KAI(t testing.TB, dgd *nvidiav1beta1.DynamoGraphDeployment) kai.Input {
	t.Helper()
	return kai.Input{
		Namespace: dgd.Namespace, Name: dgd.Name, Queue: kai.Queue(dgd.Annotations, dgd.Labels, ""),
		Topology: Topology().Name, Groups: Groups(t, dgd, "KAI"),
	}
}

// Grove returns the deployment as the input of Grove's renderer.
func Grove(t testing.TB, dgd *nvidiav1beta1.DynamoGraphDeployment) grove.Input {
	t.Helper()
	return grove.Input{Namespace: dgd.Namespace, Name: dgd.Name, Queue: kai.Queue(dgd.Annotations, dgd.Labels, ""), Groups: Groups(t, dgd,
		"Grove")}
}

// Pods returns all pods of a deployment as members of their PodGroup, in the state of released pods.
func Pods(g kai.Input) []*corev1.Pod {
	var out []*corev1.Pod
	for _, sg := range g.Groups {
		for ordinal := range sg.Spec.Replicas {
			for index := range render.PodsPerReplica(sg) {
				pod := render.BuildPod(sg, ordinal, index)
				g.Prepare(pod, sg)
				if constraint.Packed(sg) {
					labels, annotations := kai.Membership(g.Name, pod)
					maps.Copy(pod.Labels, labels)
					maps.Copy(pod.Annotations, annotations)
				}
				out = append(out, pod)
			}
		}
	}
	return out
}

// InSets returns the groups of the same deployment with the annotation that selects LeaderWorkerSets for its multinode components.
func InSets(groups []*trellisv1alpha1.ScalingGroup) []*trellisv1alpha1.ScalingGroup {
	var out []*trellisv1alpha1.ScalingGroup
	for _, sg := range groups {
		sg = sg.DeepCopy()
		if sg.Spec.Multinode {
			sg.Spec.Workload = specs.LeaderWorkerSet
		}
		out = append(out, sg)
	}
	return out
}

// Sets returns the LeaderWorkerSets of a deployment's multinode components.
func Sets(groups []*trellisv1alpha1.ScalingGroup, prepare func(*corev1.Pod, *trellisv1alpha1.ScalingGroup)) []*lws.LeaderWorkerSet {
	var out []*lws.LeaderWorkerSet
	for _, sg := range InSets(groups) {
		if !sg.Spec.Multinode {
			continue
		}
		templates := lws.For(sg)
		for ordinal := range sg.Spec.Replicas {
			out = append(out, templates.Render(ordinal, func(pod *corev1.Pod) {
				if prepare != nil {
					prepare(pod, sg)
				}
			}))
		}
	}
	return out
}

// SketchKAI returns a line for the PodGroup and each subgroup: its minimum of children or pods, and its constraint.
func SketchKAI(pg *kai.PodGroup) string {
	if pg == nil {
		return ""
	}
	var out strings.Builder
	line(&out, 0, pg.Name, minimum(pg.Spec.MinSubGroup, nil), kaiPack(pg.Spec.TopologyConstraint))
	for _, sub := range pg.Spec.SubGroups {
		depth := 1
		if sub.Parent != "" {
			depth = 2
		}
		line(&out, depth, sub.Name, minimum(sub.MinSubGroup, sub.MinMember), kaiPack(sub.TopologyConstraint))
	}
	return out.String()
}

// SketchGrove returns a line for the set, each scaling group and each clique: replicas, their minimum, and the constraint.
func SketchGrove(pcs *grove.PodCliqueSet) string {
	var out strings.Builder
	template := pcs.Spec.Template
	line(&out, 0, pcs.Name, grovePack(template.TopologyConstraint))
	inGroup := map[string]bool{}
	for _, group := range template.PodCliqueScalingGroups {
		line(&out, 1, group.Name, count(*group.Replicas, *group.MinAvailable), grovePack(group.TopologyConstraint))
		for _, name := range group.CliqueNames {
			inGroup[name] = true
			for _, clique := range template.Cliques {
				if clique.Name == name {
					line(&out, 2, clique.Name, count(clique.Spec.Replicas, *clique.Spec.MinAvailable), grovePack(clique.TopologyConstraint))
				}
			}
		}
	}
	for _, clique := range template.Cliques {
		if !inGroup[clique.Name] {
			line(&out, 1, clique.Name, count(clique.Spec.Replicas, *clique.Spec.MinAvailable), grovePack(clique.TopologyConstraint))
		}
	}
	return out.String()
}

// SketchLWS returns a line for each set: its size, the gates of its leaders, and the scheduler of its workers.
func SketchLWS(sets []*lws.LeaderWorkerSet) string {
	var out strings.Builder
	for _, set := range sets {
		template := set.Spec.LeaderWorkerTemplate
		waits := ""
		for _, gate := range template.LeaderTemplate.Spec.SchedulingGates {
			waits += " gate " + gate.Name
		}
		if name := template.WorkerTemplate.Spec.SchedulerName; name != "" {
			waits += " for " + name
		}
		line(&out, 0, set.Name, fmt.Sprintf("size %d%s", template.Size, waits))
	}
	return out.String()
}

func line(out *strings.Builder, depth int, words ...string) {
	out.WriteString(strings.TrimRight(strings.Repeat("  ", depth)+strings.Join(words, " "), " ") + "\n")
}

func minimum(children, pods *int32) string {
	switch {
	case children != nil && pods != nil:
		return "has both minima"
	case children != nil:
		return fmt.Sprintf("needs %d", *children)
	case pods != nil:
		return fmt.Sprintf("pods %d", *pods)
	}
	return "needs all"
}

func count(replicas, least int32) string { return fmt.Sprintf("%d (least %d)", replicas, least) }

func kaiPack(c *kai.TopologyConstraint) string {
	if c == nil {
		return ""
	}
	return packText(c.RequiredTopologyLevel, c.PreferredTopologyLevel)
}

func grovePack(c *grove.TopologyConstraint) string {
	switch {
	case c == nil:
		return ""
	case c.Pack == nil:
		return packText(c.PackDomain, "")
	}
	return packText(c.Pack.Required, c.Pack.Preferred)
}

func packText(required, preferred string) string {
	short := func(s string) string { return strings.TrimPrefix(s, "example.com/") }
	var parts []string
	if required != "" {
		parts = append(parts, "in one "+short(required))
	}
	if preferred != "" {
		parts = append(parts, short(preferred)+" first")
	}
	return strings.Join(parts, ", ")
}
