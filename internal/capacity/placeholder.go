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
	// PriorityClass is the priority class of placeholders. config/capacity and the chart install it.
	PriorityClass = "trellis-placeholder"
	// Priority is the priority of that class. It is low, so that every user's pod preempts placeholders. It is not below -10, because
	// Cluster Autoscaler adds no nodes for pods below that value, which it considers expendable (--expendable-pods-priority-cutoff).
	Priority = -8
	// PlaceholderImage is the image of placeholders.
	PlaceholderImage = "registry.k8s.io/pause:3.10.1"
	// MaxExcluded is the maximum number of hosts that the node affinity of a placeholder excludes.
	MaxExcluded = 200
	// endsAfter is the active deadline after which the kubelet ends a placeholder that was not deleted.
	endsAfter = 2 * Patience
)

// Placeholder is an existing placeholder.
type Placeholder struct {
	Name string
	UID  types.UID
	// Ask is the name of the placeholder's capacity request; Graph is the UID of the deployment.
	Ask     string
	Graph   types.UID
	Created time.Time
	// Leaving: the placeholder is being deleted. Ended: it no longer runs.
	Leaving, Ended bool
	// NodeCreated is the creation time of the placeholder's node; zero if the placeholder is not bound or the node is unknown.
	NodeCreated time.Time
}

// serves reports whether a placeholder is useful: it has not ended, and it is unbound or on a node that is newer than its request. On an
// older node, a placeholder does not make the autoscaler add a node.
func (p *Placeholder) serves(asked time.Time) bool {
	return !p.Ended && (p.NodeCreated.IsZero() || !p.NodeCreated.Before(asked))
}

// IsPlaceholder reports whether a pod is a placeholder. Placeholders do not count as used capacity, because they are deleted before a gang
// is released to their node, and because any user's pod preempts them. namespace is the operator's own namespace, in which users create no
// pods; "" if the caller does not know it.
func IsPlaceholder(pod *corev1.Pod, namespace string) bool {
	return pod.Labels[LabelAsk] != "" && (namespace == "" || pod.Namespace == namespace) && topology.PriorityOf(pod) == Priority
}

// existing holds the existing objects of one capacity request.
type existing struct {
	// names are the names of the request's placeholders.
	names map[string]bool
	// request: the ProvisioningRequest exists.
	request bool
	// since is the creation time of the first object.
	since time.Time
	// over is the reason why the autoscaler no longer acts on the request.
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

// missing returns the indexes of those placeholders of a gang that do not exist.
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

// Placeholder returns one placeholder of a capacity request. exclude are the hosts that have space for the placeholder but do not help the
// gang. The placeholder's node affinity excludes up to MaxExcluded of these hosts.
func (a *Ask) Placeholder(at Index, namespace, image string, exclude []string) *corev1.Pod {
	template := a.Gang.Sets[at.Set].Template.DeepCopy()
	complete(template, a.Name, string(a.Gang.UID), at.Set)
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: at.name(a.Name), Labels: template.Labels,
			// Cluster Autoscaler does not remove a node with a pod that has no controller, unless an annotation of the pod allows it.
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

// avoid adds the exclusion of hosts to each term of a pod's required node affinity.
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
