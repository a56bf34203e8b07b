// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// cluster answers lists of pods in pages of one; its pods are "x" (another's), "done" (another's, ended) and "ours" (ended).
type cluster struct {
	client.Reader
	forbidden, unknown, old bool
}

func (c cluster) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	kind := fmt.Sprintf("%T", list)
	custom := !strings.HasPrefix(kind, "*v1.")
	switch {
	case c.forbidden && o.Namespace == "" && !custom:
		return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	case c.unknown && custom:
		return &meta.NoKindMatchError{}
	case c.old && kind == "*v1.DeviceClassList":
		return &meta.NoKindMatchError{}
	}
	switch l := list.(type) {
	case *corev1.PodList:
		at, _ := strconv.Atoi(o.Continue)
		name := []string{"x", "done", "ours"}[at]
		pod := corev1.Pod{}
		pod.Name, pod.Labels = name, map[string]string{name: "label"}
		switch name {
		case "ours":
			pod.Labels[render.LabelScalingGroup] = "g"
			fallthrough
		case "done":
			pod.Status.Phase = corev1.PodFailed
		}
		l.Items = []corev1.Pod{pod}
		if at < 2 {
			l.Continue = strconv.Itoa(at + 1)
		}
	case *nvidiav1beta1.DynamoGraphDeploymentList:
		l.Items = make([]nvidiav1beta1.DynamoGraphDeployment, 1)
	case *trellisv1alpha1.ScalingGroupList:
		l.Items = make([]trellisv1alpha1.ScalingGroup, 1)
	case *corev1.NodeList:
		l.Items = make([]corev1.Node, 1)
	case *appsv1.DeploymentList:
		l.Items = make([]appsv1.Deployment, 1)
		l.Items[0].Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--leader-elect", "--ignored-resources=example.com/a,vendor.example", "--ignored-resources=", "--leaving-taints=example.com/retired", "--repack-rest=2h"}}}
	case *nodev1.RuntimeClassList:
		l.Items = make([]nodev1.RuntimeClass, 1)
	case *corev1.LimitRangeList:
		l.Items = make([]corev1.LimitRange, 1)
	case *resourcev1.DeviceClassList:
		l.Items = make([]resourcev1.DeviceClass, 1)
	}
	return nil
}

func names(pods []*corev1.Pod) string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return strings.Join(list, " ")
}

// bound is a cluster that has one ClusterTopology and two Bindings, one of them of the same name.
type bound struct {
	cluster
	hidden bool
}

func (b bound) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	level := topologybinding.Level{Domain: "rack", Key: "r"}
	switch l := list.(type) {
	case *grovev1alpha1.ClusterTopologyList:
		l.Items = make([]grovev1alpha1.ClusterTopology, 1)
		l.Items[0].Name = "a"
		return nil
	case *topologybinding.BindingList:
		if b.hidden {
			return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
		}
		l.Items = make([]topologybinding.Binding, 2)
		for i, name := range []string{"a", "b"} {
			l.Items[i].Name, l.Items[i].Spec.Levels = name, []topologybinding.Level{level}
		}
		return nil
	}
	return b.cluster.List(ctx, list, options...)
}

// Bindings are topologies. Who may not read them gets an answer without them.
func TestReadBindings(t *testing.T) {
	for name, tc := range map[string]struct {
		hidden bool
		want   string
	}{"all": {false, "a ClusterTopology, b ClusterTopologyBinding"}, "hidden": {true, "a ClusterTopology"}} {
		s, err := Read(t.Context(), bound{hidden: tc.hidden})
		if err != nil || s.Complete() != nil || s.Lacks(Bindings) != tc.hidden {
			t.Fatal(name, err, s.Denied)
		}
		var got []string
		for _, ct := range s.Topologies {
			got = append(got, ct.Name+" "+ct.Source())
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRead(t *testing.T) {
	s, err := Read(t.Context(), cluster{})
	if err != nil || s.Complete() != nil {
		t.Fatal(err, s)
	}
	if got := names(s.Pods); got != "x ours" || len(s.Nodes) != 1 || len(s.Groups) != 1 || len(s.Graphs) != 1 {
		t.Errorf("pods %s, %d nodes, %d groups, %d graphs", got, len(s.Nodes), len(s.Groups), len(s.Graphs))
	}
	if len(s.Runtimes) != 1 || len(s.Limits) != 1 || len(s.Devices) != 1 || !slices.Equal(s.Ignored, []string{"example.com/a", "vendor.example"}) {
		t.Errorf("%d runtime classes, %d limit ranges, %d device classes; ignored %q", len(s.Runtimes), len(s.Limits), len(s.Devices), s.Ignored)
	}
	if !slices.Equal(s.Leaving.Taints, []string{"example.com/retired"}) || s.Rest != 2*time.Hour {
		t.Errorf("leaving taints %q, rest %s", s.Leaving.Taints, s.Rest)
	}
	if s.Pods[1].Labels["ours"] == "" || len(s.Pods[1].Labels) != 2 {
		t.Errorf("labels of a pod on a later page: %v", s.Pods[1].Labels)
	}
}

// versioned is a cluster whose API server tells its version, or forbids it.
type versioned struct {
	cluster
	err error
}

// ServerVersionWithContext implements discovery.ServerVersionInterfaceWithContext.
func (v versioned) ServerVersionWithContext(context.Context) (*version.Info, error) {
	return &version.Info{GitVersion: "v1.36.3"}, v.err
}

// A plan is for the release of the cluster. Without the right to know it, the release is unknown; other errors are reported.
func TestReadVersion(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	for name, tc := range map[string]struct {
		err  error
		only []string
		want string
	}{
		"all": {want: "v1.36.3"}, "some kinds": {only: []string{Graphs}}, "forbidden": {err: forbidden},
	} {
		if s, err := Read(t.Context(), versioned{err: tc.err}, tc.only...); err != nil || s.Version != tc.want {
			t.Errorf("%s: %v, version %+v", name, err, s)
		}
	}
	if _, err := Read(t.Context(), versioned{err: errors.New("no answer")}); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("an error is not reported: %v", err)
	}
}

// A plan can be made on a cluster where Trellis is not installed yet.
func TestReadWithoutTrellis(t *testing.T) {
	s, err := Read(t.Context(), cluster{unknown: true})
	if err != nil || s.Complete() != nil || s.NotInstalled == nil || len(s.Nodes) != 1 || len(s.Graphs) != 0 {
		t.Errorf("%v %+v", err, s)
	}
}

// Kubernetes before 1.34 does not serve resource.k8s.io/v1: nothing is missing there.
func TestReadOfAnOlderKubernetes(t *testing.T) {
	s, err := Read(t.Context(), cluster{old: true})
	if err != nil || s.Complete() != nil || s.NotInstalled != nil || len(s.Devices) != 0 || len(s.Graphs) != 1 {
		t.Errorf("%v %+v", err, s)
	}
}

func TestReadNamesMissingRights(t *testing.T) {
	s, err := Read(t.Context(), cluster{forbidden: true})
	if err != nil {
		t.Fatal(err)
	}
	want := "you may not list nodes, list pods in the whole cluster, which a plan needs: ask for a ClusterRole with these rights"
	if got := s.Complete(); got == nil || got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if err := s.Narrow(t.Context(), cluster{forbidden: true}, "ns", Pods); err != nil || len(s.Pods) != 2 {
		t.Errorf("%v, pods %s", err, names(s.Pods))
	}
}
