// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Subject is the deployment to explain, in its cluster.
type Subject struct {
	live.Snapshot
	DGD *nvidiav1beta1.DynamoGraphDeployment
	// Events of the deployment and of some of its waiting pods, unless EventsHidden.
	Events       []corev1.Event
	EventsHidden bool
	// Preempted are the kube-scheduler's events about preempted pods of the namespace.
	Preempted []corev1.Event
	// Operator is the state of the operator; nil if it is running.
	Operator *live.Heartbeat
}

// target is the object that the user names.
type target struct{ kind, name string }

// Kinds of target.
var (
	kindGraph = cli.Graph.Name
	kindGroup = cli.Group.Name
	kindPod   = cli.Pod.Name
)

func parseTarget(args ...string) (target, error) {
	kind, name, err := cli.Object(args, cli.Graph, cli.Group, cli.Pod)
	return target{kind.Name, name}, err
}

// Read takes a snapshot. It succeeds without the right to list nodes, pods or events, because the operator's reports do not need these
// objects. The explanation is then shorter, and names the missing rights.
func Read(ctx context.Context, c client.Reader, namespace string, t target) (*Subject, error) {
	name, err := t.resolve(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	dgd, err := live.Graph(ctx, c, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	world, err := live.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &Subject{Snapshot: *world, DGD: dgd}
	if err := s.Narrow(ctx, c, namespace, live.Pods, live.Groups); err != nil {
		return nil, err
	}
	s.keepGraph()
	if s.Operator, err = live.ReadHeartbeat(ctx, c); err != nil {
		return nil, err
	}
	return s, s.readEvents(ctx, c)
}

// keepGraph replaces the snapshot's copy of the deployment with s.DGD, so that the snapshot and the subject contain the same object.
func (s *Subject) keepGraph() {
	for i, dgd := range s.Graphs {
		if dgd.Namespace == s.DGD.Namespace && dgd.Name == s.DGD.Name {
			s.Graphs[i] = s.DGD
			return
		}
	}
	s.Graphs = append(s.Graphs, s.DGD)
}

// resolve returns the name of the deployment to which the target belongs.
func (t target) resolve(ctx context.Context, c client.Reader, namespace string) (string, error) {
	switch t.kind {
	case kindGroup:
		sg := &trellisv1alpha1.ScalingGroup{}
		if err := get(ctx, c, namespace, t, sg, &trellisv1alpha1.ScalingGroupList{}); err != nil {
			return "", err
		}
		return sg.Spec.Graph, nil
	case kindPod:
		pod := &corev1.Pod{}
		if err := get(ctx, c, namespace, t, pod, &corev1.PodList{}); err != nil {
			return "", err
		}
		group := pod.Labels[render.LabelScalingGroup]
		if group == "" {
			return "", fmt.Errorf("pod %s/%s is not Trellis': it has no label %s", namespace, t.name, render.LabelScalingGroup)
		}
		return target{kindGroup, group}.resolve(ctx, c, namespace)
	}
	return t.name, nil
}

// get reads one object. If it does not exist, the error names the existing objects.
func get(ctx context.Context, c client.Reader, namespace string, t target, into client.Object, list client.ObjectList) error {
	what := fmt.Sprintf("%s %s/%s", t.kind, namespace, t.name)
	err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: t.name}, into)
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return cli.Explain(err, "getting "+what)
	}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("%s not found", what)
	}
	return cli.NotFound(what, namesOf(list), "none in this namespace")
}

func namesOf(list client.ObjectList) []string {
	var names []string
	_ = meta.EachListItem(list, func(o runtime.Object) error { // every item of a typed list is an object
		names = append(names, o.(client.Object).GetName())
		return nil
	})
	return names
}

// speaks reports whether a pod is the first pod of its replica. Events about the replica are recorded on this pod.
func speaks(pod *corev1.Pod) bool {
	_, index, ok := render.ReplicaOf(pod)
	return ok && index == 0
}

// maxEventPods is the maximum number of waiting pods whose events are read.
const maxEventPods = 4

// readEvents reads the events of the deployment and of at most maxEventPods of its unbound pods on which events are recorded.
func (s *Subject) readEvents(ctx context.Context, c client.Reader) error {
	about := []types.UID{s.DGD.UID}
	for _, pod := range s.Pods {
		ours := pod.Namespace == s.DGD.Namespace && pod.Labels[render.LabelGraph] == render.LabelValue(s.DGD.Name)
		if ours && pod.Spec.NodeName == "" && speaks(pod) && len(about) <= maxEventPods {
			about = append(about, pod.UID)
		}
	}
	for _, uid := range about {
		list := &corev1.EventList{}
		err := c.List(ctx, list, client.InNamespace(s.DGD.Namespace), client.MatchingFields{"involvedObject.uid": string(uid)})
		if apierrors.IsForbidden(err) {
			s.EventsHidden = true
			return nil
		}
		if err != nil {
			return cli.Explain(err, "listing events")
		}
		s.Events = append(s.Events, list.Items...)
	}
	return s.readPreempted(ctx, c)
}
