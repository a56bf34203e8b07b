// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
)

// RequestCost is the CPU time of one request of a kind.
type RequestCost struct {
	Name string
	Cost
}

// requestKind is a kind of requests; send sends the i-th.
type requestKind struct {
	name string
	send func(i int) error
}

// gangModel has the objects of a bound packed gang; requests use copies of them.
type gangModel struct {
	pod               *corev1.Pod
	deployment, group client.Object
	children          []client.Object
}

// RequestCosts sends repeats requests of each kind that a packed gang needs, one after the other, and returns the CPU time of one request.
// Meanwhile only etcd, the API server and an operator that does not lead run: its caches watch, but no controller acts. The cluster cannot
// be used afterwards.
func (c *Cluster) RequestCosts(ctx context.Context, pods, repeats int) ([]RequestCost, error) {
	if err := trellisv1alpha1.AddToScheme(c.c.Scheme()); err != nil {
		return nil, err
	}
	m, err := c.model(ctx, pods)
	if err != nil {
		return nil, err
	}
	if err := c.still(ctx); err != nil {
		return nil, err
	}
	var costs []RequestCost
	for _, kind := range append(c.podRequests(ctx, m), c.otherRequests(ctx, m)...) {
		if err := c.untilQuiet(ctx); err != nil {
			return nil, err
		}
		before := Cost{Programs: c.programs()}
		for i := range repeats {
			if err := kind.send(i); err != nil {
				return nil, fmt.Errorf("%s: %w", kind.name, err)
			}
		}
		spent := Cost{Programs: c.programs()}.add(before.times(-1)).times(1 / float64(repeats))
		costs = append(costs, RequestCost{kind.name, spent})
	}
	return costs, nil
}

// model lets a packed gang be placed, and reads its objects.
func (c *Cluster) model(ctx context.Context, size int) (m gangModel, err error) {
	p, err := c.follow(ctx, boundOnly)
	if err != nil {
		return m, err
	}
	defer p.events.Stop()
	deployment := packed(c.shape, 1, size)[0][0]
	if err := c.create(ctx, []client.Object{deployment}); err != nil {
		return m, err
	}
	if err := p.until(ctx, "all pods are bound", func() bool { return p.bound() == size }); err != nil {
		return m, err
	}
	if err := c.untilQuiet(ctx); err != nil {
		return m, err
	}
	for _, pod := range p.byName {
		m.pod = pod
	}
	groups, services := &trellisv1alpha1.ScalingGroupList{}, &corev1.ServiceList{}
	accounts, roles, bindings := &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}
	for _, list := range []client.ObjectList{groups, services, accounts, roles, bindings} {
		if err := c.c.List(ctx, list, client.InNamespace(namespace), client.HasLabels{render.LabelGraph}); err != nil {
			return m, err
		}
	}
	if len(groups.Items) != 1 || len(services.Items) != 2 || len(accounts.Items)*len(roles.Items)*len(bindings.Items) != 1 {
		return m, errors.New("a packed gang does not consist of what it should")
	}
	m.group, m.deployment = &groups.Items[0], deployment
	m.children = []client.Object{&services.Items[0], &services.Items[1], &accounts.Items[0], &roles.Items[0], &bindings.Items[0]}
	return m, c.c.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
}

// still stops all programs that would act. The operator continues to serve webhooks, because the API server converts deployments for its
// watch cache of v1alpha1.
func (c *Cluster) still(ctx context.Context) error {
	err := c.box.StopManager(ctx, sandbox.DefaultManager)
	for _, component := range []string{"kube-scheduler", "kube-controller-manager", "kwok"} {
		err = errors.Join(err, c.box.StopComponent(ctx, component))
	}
	if err != nil {
		return err
	}
	taken := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("trellis-bench"), LeaseDurationSeconds: ptr.To(int32(time.Hour.Seconds())), AcquireTime: ptr.To(metav1.NowMicro()),
		RenewTime: ptr.To(metav1.NowMicro()),
	}}
	if err := c.c.Create(ctx, taken); err != nil {
		return err
	}
	return c.box.StartManager(ctx, sandbox.ManagerOptions{Args: []string{"--leader-elect=true"}})
}

// podRequests returns the requests of a gated pod with the content of the model's, from its creation until it is Ready, and of a bare pod
// with its pins.
func (c *Cluster) podRequests(ctx context.Context, m gangModel) []requestKind {
	gated := func(i int) *corev1.Pod {
		p := gatedAs(m.pod, "requests")
		p.Name, p.Spec.Hostname = fmt.Sprintf("gated-%04d", i), ""
		return p
	}
	bare := func(i int) *corev1.Pod { return pinnedAs(m.pod, fmt.Sprintf("bare-%04d", i), "requests") }
	bind := func(p *corev1.Pod, i int) error {
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: hall.HostName(i % c.shape.Hosts)}}
		return c.c.SubResource("binding").Create(ctx, p, binding)
	}
	ready := func(p *corev1.Pod) error {
		now := p.DeepCopy()
		now.Status = *m.pod.Status.DeepCopy()
		now.Status.QOSClass = "" // it depends on the requests, and does not change
		return c.c.Status().Patch(ctx, now, client.StrategicMergeFrom(p), client.FieldOwner("kubelet"))
	}
	return []requestKind{
		{"create a bare pod", func(i int) error { return c.c.Create(ctx, bare(i)) }},
		{"bind a bare pod", func(i int) error { return bind(bare(i), i) }},
		{"status of a bare pod", func(i int) error { return ready(bare(i)) }},
		{"create a gated pod of a deployment", func(i int) error { return c.c.Create(ctx, gated(i)) }},
		{"release it", func(i int) error { return c.release(ctx, gated(i), pinOf(m.pod)) }},
		{"bind it", func(i int) error { return bind(gated(i), i) }},
		{"status of it", func(i int) error { return ready(gated(i)) }},
	}
}

// otherRequests returns the requests for a deployment's objects other than pods. An earlier operator looked up and applied each child.
func (c *Cluster) otherRequests(ctx context.Context, m gangModel) []requestKind {
	kinds := []requestKind{
		{"look for what is not there", func(int) error {
			return client.IgnoreNotFound(c.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "nothing"}, &corev1.Service{}))
		}},
	}
	for n, child := range append([]client.Object{m.group}, m.children...) {
		name := fmt.Sprintf("%T", child)[1:]
		if service, ok := child.(*corev1.Service); ok && service.Spec.ClusterIP == corev1.ClusterIPNone {
			name += ", headless"
		}
		kinds = append(kinds,
			requestKind{"create a " + name, func(i int) error { return c.c.Create(ctx, copyOf(child, fmt.Sprintf("created-%d-%04d", n, i))) }},
			requestKind{"apply a new " + name, func(i int) error { return c.apply(ctx, copyOf(child, fmt.Sprintf("applied-%d-%04d", n, i))) }},
		)
	}
	status := func(object client.Object) func(int) error {
		return func(i int) error {
			raw := fmt.Appendf(nil, `{"status":{"observedGeneration":%d}}`, 100+i)
			return c.c.Status().Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, raw))
		}
	}
	asked := func(int) error {
		dgd := copyOf(m.deployment, "asked").(*nvidiav1beta1.DynamoGraphDeployment)
		return c.c.Create(ctx, dgd, client.DryRunAll)
	}
	return append(kinds,
		requestKind{"status of a ScalingGroup", status(m.group)}, requestKind{"status of a deployment", status(m.deployment)},
		requestKind{"create a deployment, dry-run", asked})
}

// copyOf returns a copy of an object that can be created under another name.
func copyOf(object client.Object, name string) client.Object {
	o := object.DeepCopyObject().(client.Object)
	o.SetName(name)
	o.SetUID("")
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	o.SetCreationTimestamp(metav1.Time{})
	if service, ok := o.(*corev1.Service); ok {
		if service.Spec.ClusterIPs = nil; service.Spec.ClusterIP != corev1.ClusterIPNone {
			service.Spec.ClusterIP = ""
		}
	}
	return o
}

// apply applies a new object server-side, without its status.
func (c *Cluster) apply(ctx context.Context, object client.Object) error {
	gvk, err := apiutil.GVKForObject(object, c.c.Scheme())
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return c.c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(render.FieldOwner), client.ForceOwnership)
}
