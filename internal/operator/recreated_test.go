// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// bare is an API server with the whole operator and nothing else: no garbage collector, no scheduler, no kubelets.
type bare struct {
	t      *testing.T
	config *rest.Config
	c      client.Client
	stop   func()
	// newClient makes the operator's client.
	newClient client.NewClientFunc
	// change changes the operator's settings; nil: they stay.
	change func(*Options)
}

func newBare(t *testing.T) *bare {
	t.Helper()
	return newBareWith(t, client.New)
}

func newBareWith(t *testing.T, newClient client.NewClientFunc) *bare {
	t.Helper()
	config := shared.Config(t)
	c, err := client.New(config, client.Options{Scheme: NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	b := &bare{t: t, config: config, c: c, newClient: newClient}
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

// install installs the definitions in a directory, with a server that converts.
func install(t *testing.T, config *rest.Config, dir string) {
	t.Helper()
	server := conversion.Serve()
	t.Cleanup(server.Close)
	if err := server.Install(config, dir); err != nil {
		t.Fatal(err)
	}
}

// start runs the operator until b.stop.
func (b *bare) start() {
	options := Options{
		MetricsAddress: "0", ProbeAddress: "0", Namespace: "default", QPS: 500, Burst: 1000, Provider: specs.Auto,
		RequeueAfter: scheduler.DefaultRequeueAfter, HoldFor: scheduler.DefaultHoldFor, ReserveDomainAfter: -1, NewClient: b.newClient,
	}
	if b.change != nil {
		b.change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer close(done)
		err := Run(ctx, rights.Of("operator").Record(b.config, options.Namespace), options)
		if ctx.Err() != nil {
			err = nil // the end was asked for
		}
		done <- err
	}()
	b.stop = func() {
		b.t.Helper()
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("the operator ended: %v", err)
		}
	}
}

func (b *bare) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bare) until(what string, within time.Duration, look func() error) {
	b.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(b.t.Context(), 50*time.Millisecond, within, true, func(context.Context) (bool, error) {
		last = look()
		return last == nil, nil
	})
	if err != nil {
		b.t.Fatalf("waiting until %s: %v\n%s", what, last, b.describe())
	}
}

// describe is what one would want to see of a test that failed.
func (b *bare) describe() string {
	var out strings.Builder
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, list := range append(everything(), &nvidiav1alpha1.DynamoGraphDeploymentList{}, &corev1.PodList{}) {
		_ = b.c.List(ctx, list)
		items, _ := meta.ExtractList(list)
		for _, item := range items {
			object := item.(client.Object)
			if object.GetNamespace() != "" && !strings.HasPrefix(object.GetNamespace(), "kube-") {
				fmt.Fprintf(&out, "%T %s/%s %s deleting=%v owners=%v\n", object, object.GetNamespace(), object.GetName(), object.GetUID(), object.GetDeletionTimestamp() != nil, object.GetOwnerReferences())
			}
			if dgd, ok := item.(*nvidiav1alpha1.DynamoGraphDeployment); ok {
				fmt.Fprintf(&out, "  %+v\n", dgd.Status.Conditions)
			}
		}
	}
	return out.String()
}

func (b *bare) pods(namespace string) []corev1.Pod {
	b.t.Helper()
	pods := &corev1.PodList{}
	b.must(b.c.List(b.t.Context(), pods, client.InNamespace(namespace)))
	return pods.Items
}

// everything is what a deployment may bring, but for pods.
func everything() []client.ObjectList {
	return []client.ObjectList{
		&trellisv1alpha1.ScalingGroupList{}, &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterList{}, &corev1.ServiceList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	}
}

// belongs says why not everything in the namespace belongs to the deployment of today, or why it has not these scaling groups and pods.
func (b *bare) belongs(dgd *nvidiav1alpha1.DynamoGraphDeployment, groups, pods string) error {
	b.t.Helper()
	var names []string
	uids := map[string]bool{}
	for _, list := range everything() {
		b.must(b.c.List(b.t.Context(), list, client.InNamespace(dgd.Namespace)))
		items, err := meta.ExtractList(list)
		b.must(err)
		for _, item := range items {
			object := item.(client.Object)
			if owner := metav1.GetControllerOf(object); owner != nil && owner.UID != dgd.UID {
				return fmt.Errorf("%T %s is of the earlier deployment", object, object.GetName())
			}
			if sg, ok := item.(*trellisv1alpha1.ScalingGroup); ok {
				names = append(names, sg.Name)
				uids[string(sg.UID)] = true
			}
		}
	}
	if got := strings.Join(names, " "); got != groups {
		return fmt.Errorf("there are the groups %q, want %q", got, groups)
	}
	names = nil
	for _, pod := range b.pods(dgd.Namespace) {
		if !uids[string(metav1.GetControllerOf(&pod).UID)] {
			return fmt.Errorf("pod %s is of an earlier group", pod.Name)
		}
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != pods {
		return fmt.Errorf("there are the pods %q, want %q", got, pods)
	}
	return nil
}

// endPods plays the kubelets of pods that are being deleted.
func (b *bare) endPods(namespace string) {
	b.t.Helper()
	for _, pod := range b.pods(namespace) {
		if pod.DeletionTimestamp != nil {
			b.must(client.IgnoreNotFound(b.c.Delete(b.t.Context(), &pod, client.GracePeriodSeconds(0))))
		}
	}
}

func deployment(namespace string, services graphs.Services) *nvidiav1alpha1.DynamoGraphDeployment {
	return &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"}, Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: services},
	}
}

func frontend() *nvidiav1alpha1.ServiceSpec {
	s := graphs.Frontend(2)
	s.ScalingAdapter = &nvidiav1alpha1.ScalingAdapter{Enabled: true}
	return s
}

// A deployment is deleted and created again by the same name, and no garbage collector deletes what the first one owned: the operator does, and
// the second one comes up. While the operator runs, and while it does not.
func TestRecreatedWithoutGarbageCollector(t *testing.T) {
	b := newBare(t)
	node, seen, missed := newNode(t, b.c), newNamespace(t, b.c), newNamespace(t, b.c)
	for _, name := range []string{seen, missed} {
		t.Logf("while the operator runs: %t", name == seen)
		first := deployment(name, graphs.Services{"Worker": graphs.Worker(2, 2, 8, ""), "Frontend": frontend(), "Old": graphs.Worker(1, 2, 8, "")})
		b.must(b.c.Create(t.Context(), first))
		b.until("the first one has its pods", time.Minute, func() error {
			return b.belongs(first, "g-frontend g-old g-worker", "g-frontend-0 g-frontend-1 g-old-0-0 g-old-0-1 g-worker-0-0 g-worker-0-1 g-worker-1-0 g-worker-1-1")
		})
		runs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "g-frontend-0"}}
		b.must(b.c.SubResource("binding").Create(t.Context(), runs, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}))

		if name == missed {
			b.stop()
		}
		b.must(b.c.Delete(t.Context(), first))
		second := deployment(name, graphs.Services{"Worker": graphs.Worker(1, 2, 8, ""), "Frontend": frontend()})
		second.Spec.Services["Frontend"].Replicas = ptr.To[int32](1)
		b.must(b.c.Create(t.Context(), second))
		if name == missed {
			b.start()
		}
		b.until("all is of the second one", time.Minute, func() error {
			b.endPods(name)
			return b.belongs(second, "g-frontend g-worker", "g-frontend-0 g-worker-0-0 g-worker-0-1")
		})
	}

	t.Log("a scaling group is deleted by hand: it is recreated, with new pods")
	second := &nvidiav1alpha1.DynamoGraphDeployment{}
	b.must(b.c.Get(t.Context(), client.ObjectKey{Namespace: seen, Name: "g"}, second))
	b.must(b.c.Delete(t.Context(), &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: seen, Name: "g-worker"}}))
	b.until("its pods are of the new group", time.Minute, func() error {
		b.endPods(seen)
		return b.belongs(second, "g-frontend g-worker", "g-frontend-0 g-worker-0-0 g-worker-0-1")
	})
}
