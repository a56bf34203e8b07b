// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/recorded"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	zoneKey = "topology.kubernetes.io/zone"
	rackKey = "topology.trellis.dev/rack"
	poolKey = "e2e.trellis.dev/pool"
)

// world is one scenario's own part of the cluster: a namespace, a pool of nodes, and a ClusterTopology (zone, rack, host) over it, all of
// one name.
type world struct {
	environment
	// t is the spec, or the benchmark.
	t    testing.TB
	name string
	// patience of this scenario, where it is not the usual one.
	patience time.Duration
	// bindings: a ClusterTopology in a manifest is created as the ClusterTopologyBinding with its levels.
	bindings bool
	// operators in this process that lead for the world. Of several, each may have requests on their way that another one has overtaken.
	operators int
}

// scenario is the spec that runs, for helpers that serve benchmarks, too. Its context ends with the spec, also when that times out.
type scenario struct {
	testing.TB
	ctx context.Context
}

func (s scenario) Context() context.Context { return s.ctx }

// of is the spec that runs.
func of(ctx context.Context) testing.TB { return scenario{GinkgoTB(), ctx} }

// newWorld is a world of its own on the shared sandbox.
func newWorld(ctx context.Context, name string, hosts ...host) *world {
	GinkgoHelper()
	return shared.open(ctx).newWorld(ctx, name, hosts...)
}

// newWorld is a world on a cluster.
func (e environment) newWorld(ctx context.Context, name string, hosts ...host) *world {
	GinkgoHelper()
	w := newWorldIn(of(ctx), e, name, hosts...)
	w.describedOnFailure()
	return w
}

// emptyWorld has the name and nothing of a world; its namespace is made by the spec.
func (e environment) emptyWorld(ctx context.Context, name string) *world {
	GinkgoHelper()
	w := &world{environment: e, t: of(ctx), name: name}
	w.describedOnFailure()
	return w
}

func newWorldIn(t testing.TB, e environment, name string, hosts ...host) *world {
	t.Helper()
	w := &world{environment: e, t: t, name: name}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.addHosts(hosts...)
	w.create(w.topology())
	t.Cleanup(w.tearDown)
	return w
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.c.Create(w.t.Context(), o); err != nil {
		w.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

func (w *world) tearDown() {
	ctx, cancel := context.WithTimeout(context.Background(), suite.Patience())
	defer cancel()
	_ = w.c.DeleteAllOf(ctx, &nvidiav1alpha1.DynamoGraphDeployment{}, client.InNamespace(w.name))
	_ = w.c.Delete(ctx, w.topology())
	_ = w.c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	_ = w.c.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{poolKey: w.name})
}

// describedOnFailure adds the objects of the world, and the operator's log, to the report of a spec that fails, before anything is deleted.
func (w *world) describedOnFailure() {
	w.environment.describedOnFailure()
	DeferOnFailure(func(ctx SpecContext) {
		AddReportEntry("the objects of "+w.name, w.describe(ctx), ReportEntryVisibilityFailureOrVerbose)
	}, NodeTimeout(suite.Patience()))
}

// describe is what one would want to see of a scenario that failed.
func (w *world) describe(ctx context.Context) string {
	var b strings.Builder
	dgds := &nvidiav1alpha1.DynamoGraphDeploymentList{}
	_ = w.c.List(ctx, dgds, client.InNamespace(w.name))
	for i := range dgds.Items {
		status, _ := yaml.Marshal(dgds.Items[i].Status)
		fmt.Fprintf(&b, "dgd %s:\n%s", dgds.Items[i].Name, status)
	}
	scaled := &trellisv1alpha1.ScalingGroupList{}
	_ = w.c.List(ctx, scaled, client.InNamespace(w.name))
	for i := range scaled.Items {
		status, _ := yaml.Marshal(scaled.Items[i].Status)
		fmt.Fprintf(&b, "scalinggroup %s of generation %d:\n%s", scaled.Items[i].Name, scaled.Items[i].Generation, status)
	}
	pods := &corev1.PodList{}
	_ = w.c.List(ctx, pods, client.InNamespace(w.name))
	for i := range pods.Items {
		p := &pods.Items[i]
		fmt.Fprintf(&b, "pod %s node=%s phase=%s gated=%v selector=%v deleting=%v\n", p.Name, p.Spec.NodeName, p.Status.Phase, render.GateClosed(p), p.Spec.NodeSelector, p.DeletionTimestamp != nil)
	}
	groups := &schedulingv1beta1.PodGroupList{}
	_ = w.c.List(ctx, groups, client.InNamespace(w.name)) // not served in every sandbox
	for i := range groups.Items {
		g := &groups.Items[i]
		fmt.Fprintf(&b, "podgroup %s parent=%q deleting=%v %+v\n", g.Name, ptr.Deref(g.Spec.ParentCompositePodGroupName, ""), g.DeletionTimestamp != nil, g.Status.Conditions)
	}
	events := &eventsv1.EventList{}
	_ = w.c.List(ctx, events, client.InNamespace(w.name))
	for i := range events.Items {
		e := &events.Items[i]
		fmt.Fprintf(&b, "event %s %s/%s %s: %s\n", e.Type, e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
	}
	return b.String()
}

// looks are the delays between two looks: soon at first, then at most half a second, since many scenarios look at once and each look is
// converted by the operator.
var looks = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 7, Cap: 500 * time.Millisecond}

// until waits for a state; the error of the last look describes what is missing.
func (w *world) until(what string, look func() error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), cmp.Or(w.patience, suite.Patience()))
	defer cancel()
	var last error
	err := looks.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) {
		last = look()
		return last == nil, nil
	})
	if err != nil {
		w.t.Fatalf("waiting until %s: %v", what, last)
	}
}

func (w *world) dgd(name string) *nvidiav1alpha1.DynamoGraphDeployment {
	w.t.Helper()
	return get(w, &nvidiav1alpha1.DynamoGraphDeployment{}, w.name, name)
}

// hasCondition waits for a condition with this status and reason whose message has all the given parts.
func (w *world) hasCondition(name, kind string, status metav1.ConditionStatus, reason string, parts ...string) {
	w.t.Helper()
	wanted := haveCondition(kind, status, reason, parts...)
	w.until(fmt.Sprintf("%s of %s is %s/%s with %q", kind, name, status, reason, parts), func() error {
		dgd := w.dgd(name)
		if matches, err := wanted.Match(dgd); matches || err != nil {
			return err
		}
		return fmt.Errorf("the conditions are %q", conditionsOf(dgd))
	})
}

// ready waits until a deployment reports that it is Ready, and its pods run, too: what it reports of a pod that was just lost may be a moment old.
func (w *world) ready(name string) {
	w.t.Helper()
	w.until(name+" is Ready and successful", func() error { return w.isReady(name) })
	w.recorded(name)
}

// recorded waits until the record of a graph says what its pods show.
func (w *world) recorded(name string) {
	w.t.Helper()
	w.until("the GraphPlacement of "+name+" says what its pods show", func() error { return w.isRecorded(name) })
}

func (w *world) isRecorded(name string) error {
	w.t.Helper()
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: w.dgd(name).ObjectMeta}
	var groups []*trellisv1alpha1.ScalingGroup
	for _, sg := range list(w, &trellisv1alpha1.ScalingGroupList{}).Items {
		if sg.Spec.Graph == name {
			groups = append(groups, &sg)
		}
	}
	var pods []*corev1.Pod
	for _, pod := range list(w, &corev1.PodList{}).Items {
		if pod.Labels[render.LabelGraph] == render.LabelValue(name) {
			pods = append(pods, &pod)
		}
	}
	placement := &trellisv1alpha1.GraphPlacement{}
	switch err := w.c.Get(w.t.Context(), types.NamespacedName{Namespace: w.name, Name: name}, placement); {
	case apierrors.IsNotFound(err):
		placement = nil
	case err != nil:
		return err
	}
	return recorded.Check(dgd, groups, pods, placement)
}

func (w *world) isReady(name string) error {
	w.t.Helper()
	dgd := w.dgd(name)
	got := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1alpha1.ConditionReady)
	if got == nil || got.Status != metav1.ConditionTrue || dgd.Status.ObservedGeneration != dgd.Generation || dgd.Status.State != nvidiav1alpha1.StateSuccessful {
		return fmt.Errorf("state %s, Ready: %+v", dgd.Status.State, got)
	}
	for _, pod := range w.all() {
		if pod.Labels[render.LabelGraph] == render.LabelValue(name) && pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
		}
	}
	return nil
}

// hasEvent waits for a Warning on an object.
func (w *world) hasEvent(kind, name, reason, part string) {
	w.t.Helper()
	w.hasEventOf(corev1.EventTypeWarning, kind, name, reason, part)
}

func (w *world) hasEventOf(eventType, kind, name, reason, part string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%s %s has an event %s with %q", kind, name, reason, part), func() error {
		events := &eventsv1.EventList{}
		if err := w.c.List(w.t.Context(), events, client.InNamespace(w.name)); err != nil {
			return err
		}
		for i := range events.Items {
			e := &events.Items[i]
			if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason && e.Type == eventType && strings.Contains(e.Note, part) {
				return nil
			}
		}
		return fmt.Errorf("none among %d events", len(events.Items))
	})
}

// replicasOf returns the pods of each replica of a component, by ordinal.
func (w *world) replicasOf(service string) map[int32][]corev1.Pod {
	w.t.Helper()
	pods := list(w, &corev1.PodList{}).Items
	out := map[int32][]corev1.Pod{}
	for _, pod := range pods {
		if ordinal, _, ok := render.ReplicaOf(&pod); ok && pod.Labels[render.LabelComponent] == service && pod.DeletionTimestamp == nil {
			out[ordinal] = append(out[ordinal], pod)
		}
	}
	return out
}

// domains returns the distinct domains of a level, as paths from the zone down, in which the given pods' nodes lie.
func (w *world) domains(level string, pods ...corev1.Pod) []string {
	w.t.Helper()
	found := map[string]bool{}
	for i := range pods {
		if pods[i].Spec.NodeName == "" {
			found["<unbound>"] = true
			continue
		}
		node := get(w, &corev1.Node{}, "", pods[i].Spec.NodeName)
		path := node.Labels[zoneKey]
		switch level {
		case "rack":
			path += "/" + node.Labels[rackKey]
		case "host":
			path += "/" + node.Labels[rackKey] + "/" + node.Name
		}
		found[path] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// all returns every active pod of the world's deployments.
func (w *world) all() []corev1.Pod {
	w.t.Helper()
	pods := list(w, &corev1.PodList{}).Items
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || p.Labels[render.LabelGraph] == "" })
}

// nothingReleased checks that every pod of the component still waits behind its gate.
func (w *world) nothingReleased(service string, want int) {
	w.t.Helper()
	w.until("the pods are created", func() error { // a condition may be written before them
		n := 0
		for _, pods := range w.replicasOf(service) {
			for i := range pods {
				n++
				if !render.GateClosed(&pods[i]) {
					w.t.Errorf("pod %s was released", pods[i].Name)
				}
			}
		}
		if n != want {
			return fmt.Errorf("component %s has %d pods, want %d", service, n, want)
		}
		return nil
	})
}

// scale changes a service's replicas as a user would.
func (w *world) scale(name, service string, replicas int32) {
	w.t.Helper()
	dgd := w.dgd(name)
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"services":{%q:{"replicas":%d}}}}`, service, replicas))
	if err := w.c.Patch(w.t.Context(), dgd, patch); err != nil {
		w.t.Fatalf("scaling %s: %v", service, err)
	}
}
