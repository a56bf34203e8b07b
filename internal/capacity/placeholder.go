// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	// PriorityClass of placeholders, which config/capacity and the chart bring.
	PriorityClass = "trellis-placeholder"
	// Priority of that class: low enough that every pod of a user preempts placeholders, and not below -10, where Cluster Autoscaler takes
	// pods for expendable and adds no node for them (--expendable-pods-priority-cutoff).
	Priority = -8
	// PlaceholderImage is what placeholders run.
	PlaceholderImage = "registry.k8s.io/pause:3.10.1"
	// MaxExcluded is how many hosts a placeholder names that it is not to be bound to.
	MaxExcluded = 200
	// endsAfter is when the kubelet ends a placeholder that no one deletes.
	endsAfter = 2 * Patience
)

// Placeholder is a placeholder that exists.
type Placeholder struct {
	Name string
	UID  types.UID
	// Ask it belongs to, and the deployment that it is for.
	Ask     string
	Graph   types.UID
	Created time.Time
	// Leaving: it is being deleted. Ended: it does not run any more.
	Leaving, Ended bool
	// NodeCreated is when its node was created; zero while it is not bound, or when the node is not known.
	NodeCreated time.Time
}

// serves reports whether a placeholder is unbound, or on a node that came after its ask. On an older node it brings no node.
func (p *Placeholder) serves(asked time.Time) bool {
	return !p.Ended && (p.NodeCreated.IsZero() || !p.NodeCreated.Before(asked))
}

// IsPlaceholder reports whether a pod is a placeholder, which takes nothing from anybody: it is deleted before a gang is released to its
// node, and any pod of a user preempts it. namespace is the operator's own, where no user creates pods; "" for a program that does not
// know it.
func IsPlaceholder(pod *corev1.Pod, namespace string) bool {
	return pod.Labels[LabelAsk] != "" && (namespace == "" || pod.Namespace == namespace) && topology.PriorityOf(pod) == Priority
}

// existing is what exists of one ask.
type existing struct {
	// names of placeholders.
	names map[string]bool
	// request: its ProvisioningRequest exists.
	request bool
	// since is when the first object was created.
	since time.Time
	// over is why the autoscaler does nothing for it any more.
	over string
}

func (e existing) exists() bool { return len(e.names) > 0 || e.request }

func (e *existing) created(at time.Time) {
	if e.since.IsZero() || at.Before(e.since) {
		e.since = at
	}
}

func existingOf(o Observation) map[string]existing {
	out := map[string]existing{}
	for _, p := range o.Placeholders {
		e := out[p.Ask]
		if e.names == nil {
			e.names = map[string]bool{}
		}
		e.names[p.Name] = true
		e.created(p.Created)
		out[p.Ask] = e
	}
	for _, one := range o.Requests {
		e := out[one.Ask]
		e.request, e.over = true, one.Over
		e.created(one.Created)
		out[one.Ask] = e
	}
	return out
}

// missing are the placeholders of a gang that do not exist.
func (e existing) missing(g *Gang) (out []Index) {
	if g.Kind != KindPlaceholders {
		return nil
	}
	name := g.Ask()
	for set := range g.Sets {
		for i := range int(g.Sets[set].Count) {
			if at := (Index{set, i}); !e.names[at.name(name)] {
				out = append(out, at)
			}
		}
	}
	return out
}

func (i Index) name(ask string) string { return fmt.Sprintf("capacity-%s-%d-%d", ask, i.Set, i.Pod) }

// Placeholder is one of the pods of an ask. exclude are hosts that it is not to be bound to, since they have room for it and do not help
// the gang.
func (a *Ask) Placeholder(at Index, namespace, image string, exclude []string) *corev1.Pod {
	template := a.Gang.Sets[at.Set].Template.DeepCopy()
	complete(template, a.Name, string(a.Gang.UID), at.Set)
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: at.name(a.Name), Labels: template.Labels,
			// Cluster Autoscaler removes no node of a pod without a controller, unless the pod states that it may.
			Annotations: map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
				"trellis.dev/deployment": a.Gang.Graph.String()},
		},
		Spec: template.Spec,
	}
	pod.Spec.PriorityClassName, pod.Spec.TerminationGracePeriodSeconds = PriorityClass, ptr.To[int64](0)
	pod.Spec.ActiveDeadlineSeconds = ptr.To(int64(endsAfter / time.Second))
	pod.Spec.AutomountServiceAccountToken, pod.Spec.EnableServiceLinks = ptr.To(false), ptr.To(false)
	pod.Spec.Containers[0].Image = image
	harden(&pod.Spec)
	avoid(&pod.Spec, exclude)
	return pod
}

// avoid keeps a pod off hosts, in each alternative of what it requires of its node.
func avoid(spec *corev1.PodSpec, hosts []string) {
	if len(hosts) == 0 {
		return
	}
	hosts = slices.Sorted(slices.Values(hosts))
	not := corev1.NodeSelectorRequirement{
		Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: hosts[:min(len(hosts), MaxExcluded)],
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}}
	}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		terms[i].MatchExpressions = append(terms[i].MatchExpressions, not)
	}
}
