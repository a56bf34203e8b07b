// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// NewNodeLabels is the default for the labels of new nodes that an autoscaler can predict.
var NewNodeLabels = []string{corev1.LabelTopologyRegion, corev1.LabelTopologyZone}

// Source contains the input for Gangs, for one deployment.
type Source struct {
	DGD    *nvidiav1beta1.DynamoGraphDeployment
	Groups []*trellisv1alpha1.ScalingGroup
	// Pods are the pods of the deployment.
	Pods []*corev1.Pod
	// Result is the scheduling result.
	Result gang.Result
	// Kind is the kind of capacity requests.
	Kind string
	// NewNodeLabels are the labels of new nodes that an autoscaler can predict.
	NewNodeLabels []string
}

// helped are the codes of refusals that new nodes may resolve.
var helped = []string{placement.CodeInsufficientCapacity, placement.CodeNeverFits, placement.CodeNoDomain, placement.CodeDomainGone}

// Gangs returns the gangs that wait for capacity. It omits gangs that wait for another gang of the deployment, because they are planned
// only after that gang is placed.
func (s *Source) Gangs() []Gang {
	members, first := map[string][]*corev1.Pod{}, map[string]gang.Waiting{}
	var names []string
	for _, w := range s.Result.Waiting {
		if w.Refusal == nil || !slices.Contains(helped, w.Code) || w.Blocked() != "" {
			continue
		}
		name := cmp.Or(w.Gang, fmt.Sprintf("%s-%d", w.Component, w.Ordinal))
		if _, known := first[name]; !known {
			first[name] = w
			names = append(names, name)
		}
		members[name] = append(members[name], s.gated(w)...)
	}
	var out []Gang
	for _, name := range names {
		if len(members[name]) > 0 {
			out = append(out, s.gang(name, first[name], members[name]))
		}
	}
	return out
}

// gated returns the gated pods of a waiting replica.
func (s *Source) gated(w gang.Waiting) (pods []*corev1.Pod) {
	at := slices.IndexFunc(s.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return sg.Spec.Component == w.Component })
	if at < 0 {
		return nil
	}
	for _, pod := range s.Pods {
		ordinal, _, ok := render.ReplicaOf(pod)
		if ok && int(ordinal) == w.Ordinal && render.Member(pod, s.Groups[at]) && render.GateClosed(pod) && !gang.Leaving(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (s *Source) gang(name string, w gang.Waiting, pods []*corev1.Pod) Gang {
	g := Gang{
		Graph: types.NamespacedName{Namespace: s.DGD.Namespace, Name: s.DGD.Name}, UID: s.DGD.UID, Name: name, Kind: s.Kind,
		Never: w.Refusal.Never, Bars: barsOf(pods), Priority: topology.PriorityOf(pods[0]),
	}
	for _, pod := range pods {
		g.Priority = max(g.Priority, topology.PriorityOf(pod))
		if created := pod.CreationTimestamp.Time; created.After(g.Since) {
			g.Since = created
		}
	}
	g.Sets = SetsOf(pods, s.where(w.Refusal))
	return g
}

// barsOf returns a message about a property of the pods that capacity requests cannot express; "" for none.
func barsOf(pods []*corev1.Pod) string {
	for _, pod := range pods {
		if len(pod.Spec.ResourceClaims) > 0 {
			return fmt.Sprintf("pod %s uses resource claims, of which an autoscaler is told nothing", pod.Name)
		}
	}
	return ""
}

// where returns the part of a gang's domain that an autoscaler can provide.
func (s *Source) where(r *placement.Refusal) Where {
	where := Where{}
	for _, sg := range s.Groups {
		t := sg.Spec.Topology
		if t == nil {
			continue
		}
		for at, level := range gang.LevelsOf(t) {
			switch {
			case !slices.Contains(s.NewNodeLabels, level.Key):
			case at < len(r.Within):
				where.set(level.Key, r.Within[at])
			case at <= r.Level:
				where.Together = level.Key
			}
		}
		for key, value := range t.NodeSelector {
			where.set(key, value)
		}
		break // all groups of a deployment have the same levels
	}
	return where
}

func (w *Where) set(key, value string) {
	if w.Labels == nil {
		w.Labels = map[string]string{}
	}
	w.Labels[key] = value
}
