// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// CodeWaitsForGrove is the reason of the condition Placed while Grove, or its scheduler, has not placed every replica yet.
const CodeWaitsForGrove = "WaitsForGrove"

// Observe implements provider.Workload. groups may be a subset of the graph's scaling groups. The names of Grove's objects depend on the
// whole graph, so Observe reads the other scaling groups as well.
func (w *Workload) Observe(ctx context.Context, own client.Reader, groups []*trellisv1alpha1.ScalingGroup) (provider.Observation, error) {
	out := provider.Observation{Counts: map[string]provider.Counts{}, Reason: CodeWaitsForGrove, Message: "Grove is not watched yet",
		Blind: true}
	if own == nil || len(groups) == 0 {
		return out, nil
	}
	all, err := w.siblings(ctx, groups[0])
	if err != nil {
		return out, err
	}
	if len(all) == 0 { // deleted meanwhile, with their deployment
		out.Message = "the scaling groups of the deployment are gone"
		return out, nil
	}
	out.Blind = false
	g := w.graphOf(all, "")
	pcs := &grove.PodCliqueSet{}
	found, err := read(ctx, own, grove.PodCliqueSetKind, g.Namespace, grove.SetName(g), pcs)
	if err != nil {
		return out, err
	}
	pods, err := w.podsOf(ctx, g)
	if err != nil {
		return out, err
	}
	if !found {
		pcs = nil
	}
	var waiting []string
	for _, sg := range groups {
		s, err := component(ctx, own, g, sg)
		if err != nil {
			return out, err
		}
		out.Counts[sg.Spec.Component] = countsOf(g, sg, pcs, s)
		if s.Waiting != "" {
			waiting = append(waiting, withReason(s.Waiting, grove.Refused(podsOfComponent(pods, sg.Spec.Component))))
		}
	}
	strays := w.strays(ctx, g, pods)
	if found {
		if levels, judged := grove.TopologyLevels(pcs); judged {
			out.Levels = new(provider.Levels(levels))
		}
		if refusal := grove.Refusal(pcs); refusal != "" {
			waiting = append(waiting, refusal)
		}
	}
	w.judge(g, waiting, strays, &out)
	return out, nil
}

// countsOf returns the counts of a component. pcs is nil if the PodCliqueSet does not exist.
func countsOf(g grove.Input, sg *trellisv1alpha1.ScalingGroup, pcs *grove.PodCliqueSet, s grove.Component) provider.Counts {
	current := pcs != nil && grove.Current(g, sg, pcs)
	return provider.Counts{
		Replicas: s.Replicas, Updated: s.Updated, Scheduled: s.Scheduled, Ready: s.Ready,
		Current: current, RolledOut: current && grove.Updated(pcs) && s.Done,
	}
}

// judge sets Placed, Reason and Message of the observation.
func (w *Workload) judge(g grove.Input, waiting []string, strays grove.Strays, out *provider.Observation) {
	switch levels := out.Levels; {
	case levels != nil && !levels.Available && constraint.TopologyOf(g.Groups) != nil:
		out.Reason, out.Message = levels.Reason, levels.Message
	case strays.Message != "": // before waiting replicas: waiting ends by itself
		out.Reason = gang.CodeOutsideReplicaDomain
		if strays.Graph {
			out.Reason = gang.CodeOutsideGraphDomain
		}
		out.Message = strings.Join(append([]string{strays.Message}, waiting...), "; ")
	case len(waiting) > 0:
		out.Reason, out.Message = CodeWaitsForGrove, external.Message(strings.Join(waiting, "; "))
	default:
		out.Placed, out.Reason = true, nvidiav1beta1.ReasonAllReplicasPlaced
		out.Message = "Grove has scheduled all replicas"
		if limits := grove.Limits(g, w.last().schema); len(limits) > 0 {
			out.Message = external.Message(out.Message + "; " + strings.Join(limits, "; "))
		}
	}
}

func (w *Workload) siblings(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) ([]*trellisv1alpha1.ScalingGroup, error) {
	all := &trellisv1alpha1.ScalingGroupList{}
	if err := w.Client.List(ctx, all, client.InNamespace(sg.Namespace),
		client.MatchingLabels{render.LabelGraph: render.LabelValue(sg.Spec.Graph)}); err != nil {
		return nil, fmt.Errorf("listing the scaling groups of the graph: %w", err)
	}
	var out []*trellisv1alpha1.ScalingGroup
	for i := range all.Items {
		if all.Items[i].Spec.Graph == sg.Spec.Graph {
			out = append(out, &all.Items[i])
		}
	}
	return out, nil
}

func component(ctx context.Context, own client.Reader, g grove.Input, sg *trellisv1alpha1.ScalingGroup) (grove.Component, error) {
	object, err := made(ctx, own, g.Namespace, grove.MadeOf(g, sg))
	switch {
	case err != nil:
		return grove.Component{}, err
	case sg.Spec.Multinode:
		group, err := as[grove.PodCliqueScalingGroup](object)
		return grove.Multinode(g, sg, group), err
	}
	clique, err := as[grove.PodClique](object)
	return grove.SingleNode(g, sg, clique), err
}

// made reads the object that Grove made for a component; nil if it does not exist. It looks for the object's usual name first, and then
// searches the set's objects.
func made(ctx context.Context, reader client.Reader, namespace string, of grove.Made) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of.Kind)
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: of.UsualName()}, object)
	if err == nil && of.Is(object) {
		return object, nil
	}
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading %s %s: %w", of.Kind.Kind, of.UsualName(), err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(of.Kind)
	if err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{grove.LabelPartOf: of.Set}); err != nil {
		return nil, fmt.Errorf("listing the %s objects of PodCliqueSet %s: %w", of.Kind.Kind, of.Set, err)
	}
	for i := range list.Items {
		if of.Is(&list.Items[i]) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// as decodes an unstructured object; nil for nil.
func as[T any](object *unstructured.Unstructured) (*T, error) {
	if object == nil {
		return nil, nil
	}
	out := new(T)
	return out, external.Read(object, out)
}

func read(ctx context.Context, own client.Reader, kind schema.GroupVersionKind, namespace, name string, into any) (bool, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := own.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return true, external.Read(object, into)
}

func withReason(waiting, reason string) string {
	if reason == "" {
		return waiting
	}
	return waiting + "; " + reason
}

// podsOf returns the pods that Grove has made for the graph.
func (w *Workload) podsOf(ctx context.Context, g grove.Input) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := w.Client.List(ctx, list, client.InNamespace(g.Namespace),
		client.MatchingLabels{render.LabelGraph: render.LabelValue(g.Name)}); err != nil {
		return nil, fmt.Errorf("listing the pods of the graph: %w", err)
	}
	out := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

func podsOfComponent(pods []*corev1.Pod, component string) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.Labels[render.LabelComponent] != component })
}

// strays finds pods outside their required domains. It reads the domains from node labels.
func (w *Workload) strays(ctx context.Context, g grove.Input, pods []*corev1.Pod) grove.Strays {
	t := constraint.TopologyOf(g.Groups)
	if t == nil {
		return grove.Strays{}
	}
	var levels topology.Levels
	for _, level := range t.Levels {
		levels = append(levels, topology.Level(level))
	}
	var places []gang.PodPlace
	for _, pod := range pods {
		node := &corev1.Node{}
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || over(pod) || w.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName},
			node) != nil {
			continue
		}
		ordinal, _ := strconv.ParseInt(pod.Labels[grove.LabelReplica], 10, 32)
		places = append(places, gang.PodPlace{
			Component: pod.Labels[render.LabelComponent], Replica: int32(ordinal), Made: pod.CreationTimestamp.Time,
			Domain: levels.PathOf(node.Labels),
		})
	}
	return grove.FindStrays(g.Groups, places)
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
