// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// cluster answers reads from a scene, in pages of one pod, and refuses what is hidden.
type cluster struct {
	Scene
	hidden  map[string]bool // kinds that may not be listed; "all pods" for those of all namespaces at once
	missing bool            // the kinds of Trellis are not there
}

func (c *cluster) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	for _, g := range c.Graphs {
		if g.Name == key.Name && g.Namespace == key.Namespace {
			g.DeepCopyInto(object.(*nvidiav1beta1.DynamoGraphDeployment))
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c *cluster) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	forbidden := func(kind string) error {
		if c.hidden[kind] || c.hidden["all of the cluster"] && o.Namespace == "" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", nil)
		}
		return nil
	}
	switch l := list.(type) {
	case *nvidiav1beta1.DynamoGraphDeploymentList:
		if c.missing {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "DynamoGraphDeployment"}}
		}
		l.Items = values(c.Graphs)
		return forbidden("graphs")
	case *trellisv1alpha1.ScalingGroupList:
		l.Items = values(c.Groups)
		return forbidden("groups")
	case *grovev1alpha1.ClusterTopologyList:
		l.Items = values(c.Topologies)
		return forbidden("topologies")
	case *corev1.NodeList:
		l.Items = values(c.Nodes)
		return forbidden("nodes")
	case *corev1.PodList:
		if err := forbidden("pods"); err != nil || o.Namespace == "" && c.hidden["all pods"] {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
		}
		at := len(o.Continue)
		l.Items, l.Continue = values(c.Pods[at:at+1]), ""
		if at+1 < len(c.Pods) {
			l.Continue = strings.Repeat("x", at+1)
		}
	}
	return nil
}

func values[T any](list []*T) []T {
	out := make([]T, 0, len(list))
	for _, item := range list {
		out = append(out, *item)
	}
	return out
}

func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		request Request
		hidden  []string
		missing bool
		want    string // error
		check   func(*Scene) bool
	}{
		"everything":         {request: Request{}, check: func(s *Scene) bool { return len(s.Pods) == 10 && len(s.Nodes) == 24 && len(s.Graphs) == 1 }},
		"one graph":          {request: Request{Namespace: "team-a", Name: "chat"}, check: func(s *Scene) bool { return len(s.Graphs) == 1 && !s.OthersHidden }},
		"unknown graph":      {request: Request{Namespace: "team-a", Name: "x"}, want: "DynamoGraphDeployment team-a/x not found; there are: chat"},
		"topology":           {request: Request{Topology: "hall"}, check: func(s *Scene) bool { return s.Topology != nil && s.Topology.Name == "hall" }},
		"unknown topology":   {request: Request{Topology: "x"}, want: "ClusterTopology x not found; there are: hall"},
		"topologies hidden":  {hidden: []string{"topologies"}, check: func(s *Scene) bool { return len(s.Groups) == 2 }},
		"topology forbidden": {request: Request{Topology: "hall"}, hidden: []string{"topologies"}, want: "ClusterTopology hall: you may not list clustertopologies.grove.io"},
		"nodes hidden":       {hidden: []string{"nodes"}, check: func(s *Scene) bool { return s.NodesHidden && len(s.Pods) == 10 }},
		"other pods hidden": {
			request: Request{Namespace: "team-a"}, hidden: []string{"all pods"},
			check: func(s *Scene) bool { return s.OthersHidden && len(s.Pods) == 10 },
		},
		"rights in one namespace": {
			request: Request{Namespace: "team-a"}, hidden: []string{"all of the cluster"},
			check: func(s *Scene) bool {
				return s.NodesHidden && s.OthersHidden && len(s.Pods) == 10 && len(s.Groups) == 2 && len(s.Graphs) == 1
			},
		},
		"all pods forbidden":    {hidden: []string{"all pods"}, want: "listing pods"},
		"Trellis not installed": {missing: true, want: "is Trellis installed there?"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 3, 4)
			w.addGraph(packed, chatRunning)
			c := &cluster{Scene: w.Scene, hidden: map[string]bool{}, missing: tc.missing}
			for _, kind := range tc.hidden {
				c.hidden[kind] = true
			}
			s, err := Read(context.Background(), c, tc.request)
			switch {
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got error %v, want %q", err, tc.want)
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want == "" && !tc.check(s):
				t.Errorf("not what was wanted: %+v", s)
			}
		})
	}
}
