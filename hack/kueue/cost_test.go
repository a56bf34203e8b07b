// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// Size of a measurement: gangs of two pods with a host each, created one after the other, with or without waiting for the previous one. All
// of them fit.
const (
	costGangs  = 12
	costRounds = 3
)

const (
	queueLabel = "kueue.x-k8s.io/queue-name"
	groupLabel = "kueue.x-k8s.io/pod-group-name"
	lwsLabel   = "leaderworkerset.sigs.k8s.io/name"

	lwsIndexLabel = "leaderworkerset.sigs.k8s.io/group-index"
)

// way is a way to have Kueue admit gangs.
type way struct {
	name string
	// objects returns the objects created under a name; pods is the pod spec of its gangs.
	objects func(t *team, pods corev1.PodSpec, name string) []client.Object
	// gangs is the number of gangs of these objects.
	gangs int
	// all are the kinds for deleting all objects. Kueue keeps plain pods until their Workload is deleted.
	all []client.Object
}

var (
	deployments      = []client.Object{&nvidiav1beta1.DynamoGraphDeployment{}}
	leaderWorkerSets = []client.Object{newLeaderWorkerSet()}
	podsOfGroups     = []client.Object{&corev1.Pod{}, kueueObject("Workload", "", "", nil)}
)

// eachAlone are ways with an object for each gang, and together are ways with one object for all gangs, the usual form of scaled serving.
// Kueue's groups of plain pods have no object for several gangs.
var (
	eachAlone = []way{
		{"Trellis", deploymentOf(1), 1, deployments},
		{"plain pods in a group of Kueue", podGroup, 1, podsOfGroups},
		{"LeaderWorkerSet with Kueue", leaderWorkerSetOf(1), 1, leaderWorkerSets},
	}
	together = []way{
		{"Trellis, one deployment", deploymentOf(costGangs), costGangs, deployments},
		{"LeaderWorkerSet with Kueue, one set", leaderWorkerSetOf(costGangs), costGangs, leaderWorkerSets},
	}
)

// deploymentOf returns a way's objects: a deployment of the current version with that number of gangs.
func deploymentOf(gangs int32) func(t *team, _ corev1.PodSpec, name string) []client.Object {
	return func(t *team, _ corev1.PodSpec, name string) []client.Object {
		GinkgoHelper()
		beta := &nvidiav1beta1.DynamoGraphDeployment{}
		Expect(t.graph(name, workers(gangs)).ConvertTo(beta)).To(Succeed())
		beta.Annotations = nil // the preserved v1alpha1 fields
		return []client.Object{beta}
	}
}

// rendered returns the pod spec of a deployment without the fields that Trellis and the API server add to run it in a gang, so that all
// ways have the same containers, with their environment, probes and volumes.
func (t *team) rendered() corev1.PodSpec {
	GinkgoHelper()
	t.create(t.graph("rendered", workers(1)))
	t.ready("rendered")
	spec := *t.pods()[0].Spec.DeepCopy()
	t.remove("rendered")
	t.until("the pods are gone", func() error { return errors.Join(t.empty(), t.uses(0)) })
	spec.NodeName, spec.Hostname, spec.Subdomain, spec.NodeSelector, spec.Affinity = "", "", "", nil, nil
	spec.ServiceAccountName, spec.DeprecatedServiceAccount, spec.Tolerations = "", "", nil
	token := func(name string) bool { return strings.HasPrefix(name, "kube-api-access-") }
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return token(v.Name) })
	for i := range spec.Containers {
		c := &spec.Containers[i]
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return token(m.Name) })
	}
	return spec
}

// podGroup returns a group of plain pods, Kueue's own integration of pods.
func podGroup(t *team, pods corev1.PodSpec, name string) (out []client.Object) {
	for i := range hostsPerRack {
		out = append(out, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: t.namespace, Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{queueLabel: queueName, groupLabel: name},
				Annotations: map[string]string{"kueue.x-k8s.io/pod-group-total-count": fmt.Sprint(hostsPerRack)},
			},
			Spec: *pods.DeepCopy(),
		})
	}
	return out
}

func newLeaderWorkerSet() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("leaderworkerset.x-k8s.io/v1")
	o.SetKind("LeaderWorkerSet")
	return o
}

// leaderWorkerSetOf returns a way's objects: a LeaderWorkerSet with that number of gangs, Kueue's own integration.
func leaderWorkerSetOf(gangs int) func(t *team, pods corev1.PodSpec, name string) []client.Object {
	return func(t *team, pods corev1.PodSpec, name string) []client.Object {
		return []client.Object{leaderWorkerSet(t, pods, name, gangs)}
	}
}

func leaderWorkerSet(t *team, pods corev1.PodSpec, name string, gangs int) client.Object {
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.PodTemplateSpec{Spec: pods})
	Expect(err).NotTo(HaveOccurred())
	o := newLeaderWorkerSet()
	o.SetNamespace(t.namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{queueLabel: queueName})
	o.Object["spec"] = map[string]any{"replicas": int64(gangs), "leaderWorkerTemplate": map[string]any{"size": int64(hostsPerRack), "workerTemplate": template}}
	return o
}

// bindings records when each gang had all its pods bound.
type bindings struct {
	mu    sync.Mutex
	nodes map[string]map[string]bool
	whole map[string]time.Time
}

// follow watches the pods of a team until the spec ends.
func (t *team) follow() *bindings {
	GinkgoHelper()
	b := &bindings{nodes: map[string]map[string]bool{}, whole: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(t.ctx)
	DeferCleanup(cancel)
	changes, err := api.Watch(ctx, &corev1.PodList{}, client.InNamespace(t.namespace))
	Expect(err).NotTo(HaveOccurred())
	go func() {
		for event := range changes.ResultChan() {
			if pod, is := event.Object.(*corev1.Pod); is && pod.Spec.NodeName != "" {
				b.bound(pod)
			}
		}
	}()
	return b
}

func (b *bindings) bound(pod *corev1.Pod) {
	gang := gangOf(cmp.Or(pod.Labels[render.LabelGraph], pod.Labels[lwsLabel], pod.Labels[groupLabel]),
		cmp.Or(pod.Labels[render.LabelReplica], pod.Labels[lwsIndexLabel], "0"))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes[gang] == nil {
		b.nodes[gang] = map[string]bool{}
	}
	b.nodes[gang][pod.Name] = true
	if _, known := b.whole[gang]; !known && len(b.nodes[gang]) == hostsPerRack {
		b.whole[gang] = time.Now()
	}
}

// gangOf returns the name of an object's gang.
func gangOf(object, index string) string { return object + "/" + index }

func (b *bindings) of(gang string) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, whole := b.whole[gang]
	return at, whole
}

// cost is the time from the creation of gangs until they are bound: the median, and the time from the first creation to the last binding;
// if the gangs were created singly, the sum of their times instead. spent is the CPU time and the writes until then.
type cost struct {
	median, all time.Duration
	spent       spent
}

// measure creates gangs, waits until they are bound, and deletes them. With singly, each gang is created after the previous one is bound.
func (t *team) measure(w way, pods corev1.PodSpec, round int, singly bool) cost {
	GinkgoHelper()
	b, created := t.follow(), map[string]time.Time{}
	var names []string
	bound := func() {
		t.until("all gangs of "+w.name+" are bound", func() (err error) {
			for _, name := range names {
				if _, whole := b.of(name); !whole {
					err = errors.Join(err, fmt.Errorf("%s is not", name))
				}
			}
			return err
		})
	}
	before, start := spentSoFar(t.ctx), time.Now()
	for n := range costGangs / w.gangs {
		name := fmt.Sprintf("c%d-%d", round, n)
		for i := range w.gangs {
			gang := gangOf(name, strconv.Itoa(i))
			names, created[gang] = append(names, gang), time.Now()
		}
		for _, o := range w.objects(t, pods, name) {
			t.create(o)
		}
		if singly {
			bound()
		}
	}
	bound()
	spent := spentSoFar(t.ctx).since(before)
	var took []time.Duration
	last := start
	for _, name := range names {
		at, _ := b.of(name)
		took = append(took, at.Sub(created[name]))
		if at.After(last) {
			last = at
		}
	}
	slices.Sort(took)
	all := last.Sub(start)
	if singly { // excludes the time until this test saw that a gang was bound
		all = 0
		for _, one := range took {
			all += one
		}
	}
	for _, kind := range w.all {
		t.answered(func() error { return api.DeleteAllOf(t.ctx, kind, client.InNamespace(t.namespace)) })
	}
	t.until("the quota of "+w.name+" is given back", func() error { return errors.Join(t.empty(), t.uses(0)) })
	return cost{median: took[len(took)/2], all: all, spent: spent}
}

// empty returns an error while the team has a pod.
func (t *team) empty() error {
	list := &corev1.PodList{}
	err := api.List(t.ctx, list, client.InNamespace(t.namespace))
	if err == nil && len(list.Items) > 0 {
		return fmt.Errorf("%d pods are left", len(list.Items))
	}
	return err
}

var _ = Describe("The cost of quota by the real Kueue", Serial, suite.Slow, func() {
	// The spec reports the ratios and asserts none: they depend on the load of the machine.
	DescribeTable("is measured against Kueue's own integrations, for gangs of the same pods", func(ctx SpecContext, ways []way, singly bool) {
		t := newHall(ctx, costGangs).newTeam("a", costGangs*hostsPerRack*gpusPerHost)
		pods := t.rendered()
		costs := make([][]cost, len(ways))
		for round := range costRounds {
			for i, w := range ways {
				costs[i] = append(costs[i], t.measure(w, pods, round, singly))
			}
		}
		AddReportEntry("the best of the rounds", compared(ways, costs))
	},
		Entry("in an object for each gang", SpecTimeout(4*suite.Timeout()), eachAlone, false),
		Entry("in one object for all gangs", SpecTimeout(4*suite.Timeout()), together, false),
		Entry("in an object for each gang, each created when the one before is bound", SpecTimeout(4*suite.Timeout()), eachAlone, true),
	)
})

// compared returns a table of the best rounds of each way. The first way is compared with every way.
func compared(ways []way, costs [][]cost) string {
	least := func(of []cost, by func(cost) time.Duration) cost {
		return slices.MinFunc(of, func(a, b cost) int { return cmp.Compare(by(a), by(b)) })
	}
	median, all := func(c cost) time.Duration { return c.median }, func(c cost) time.Duration { return c.all }
	cpu := func(c cost) time.Duration { return c.spent.all() }
	best := func(of []cost, by func(cost) time.Duration) time.Duration { return by(least(of, by)) }
	var table strings.Builder
	for i, w := range ways {
		m, a := best(costs[i], median), best(costs[i], all)
		fmt.Fprintf(&table, "%s: half of the gangs bound after %s, all after %s; Trellis takes %.2f and %.2f of it, and %.2f of the CPU time; %s\n", w.name,
			m.Round(time.Millisecond), a.Round(time.Millisecond), float64(best(costs[0], median))/float64(m), float64(best(costs[0], all))/float64(a),
			float64(best(costs[0], cpu))/float64(best(costs[i], cpu)), least(costs[i], cpu).spent)
	}
	return table.String()
}
