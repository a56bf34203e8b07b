// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// TestInputs holds the hashes of what the examples' pods are made from. When they change without inputForm, the next upgrade of the
// operator rolls every pod of every user: raise inputForm, and keep the file of the form before as it is.
func TestInputs(t *testing.T) {
	files, _ := filepath.Glob("testdata/graphs/*.yaml")
	var out strings.Builder
	for _, file := range files {
		for _, s := range resolveFile(t, file).Components {
			out.WriteString(strings.TrimSuffix(filepath.Base(file), ".yaml") + "/" + s.Name + " " + s.Input.Hash + "\n")
		}
	}
	golden.Check(t, fmt.Sprintf("testdata/inputs-form-%d.golden", inputForm), out.String())
}

// TestInput: which changes of a deployment are about the pods of its component "A", and so roll them.
func TestInput(t *testing.T) {
	tests := map[string]struct {
		change   func(dgd *nvidiav1alpha1.DynamoGraphDeployment, a *nvidiav1alpha1.ServiceSpec)
		platform Platform
		rolls    bool
	}{
		"nothing": {},
		"replicas": {change: func(_ *nvidiav1alpha1.DynamoGraphDeployment, a *nvidiav1alpha1.ServiceSpec) {
			a.Replicas = ptr.To[int32](7)
		}},
		"scaling adapter": {change: func(_ *nvidiav1alpha1.DynamoGraphDeployment, a *nvidiav1alpha1.ServiceSpec) {
			a.ScalingAdapter = &nvidiav1alpha1.ScalingAdapter{Enabled: true}
		}},
		"topology": {change: func(d *nvidiav1alpha1.DynamoGraphDeployment, a *nvidiav1alpha1.ServiceSpec) {
			d.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: hallOne(t).Name, PackDomain: "zone"}
			a.TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "rack"}
		}},
		"roles as they are without a list": {change: func(_ *nvidiav1alpha1.DynamoGraphDeployment, a *nvidiav1alpha1.ServiceSpec) {
			a.Roles = []nvidiav1beta1.ComponentRole{{Name: "worker", Replicas: ptr.To[int32](1)}, {Name: "leader"}}
		}},
		"ingress": {change: func(_ *nvidiav1alpha1.DynamoGraphDeployment, a *nvidiav1alpha1.ServiceSpec) {
			a.Ingress = &nvidiav1alpha1.IngressSpec{Enabled: true}
		}},
		"restart": {change: func(d *nvidiav1alpha1.DynamoGraphDeployment, _ *nvidiav1alpha1.ServiceSpec) {
			d.Spec.Restart = &nvidiav1alpha1.Restart{ID: "1"}
		}},
		"how to roll": {change: func(d *nvidiav1alpha1.DynamoGraphDeployment, _ *nvidiav1alpha1.ServiceSpec) {
			d.Spec.Annotations = map[string]string{"nvidia.com/deployment-strategy": "Recreate"}
		}},
		"other annotation": {change: func(d *nvidiav1alpha1.DynamoGraphDeployment, _ *nvidiav1alpha1.ServiceSpec) {
			d.Annotations = map[string]string{"a": "b"}
		}},
		"other service": {change: func(d *nvidiav1alpha1.DynamoGraphDeployment, _ *nvidiav1alpha1.ServiceSpec) {
			d.Spec.Services["B"].Envs = []corev1.EnvVar{{Name: "X"}}
		}},
		"variable": {change: func(_ *nvidiav1alpha1.DynamoGraphDeployment, a *nvidiav1alpha1.ServiceSpec) {
			a.Envs = []corev1.EnvVar{{Name: "X"}}
		}, rolls: true},
		"node count": {change: func(_ *nvidiav1alpha1.DynamoGraphDeployment, a *nvidiav1alpha1.ServiceSpec) {
			a.Multinode.NodeCount = 3
		}, rolls: true},
		"variable of all": {change: func(d *nvidiav1alpha1.DynamoGraphDeployment, _ *nvidiav1alpha1.ServiceSpec) {
			d.Spec.Envs = []corev1.EnvVar{{Name: "X"}}
		}, rolls: true},
		"label of all": {change: func(d *nvidiav1alpha1.DynamoGraphDeployment, _ *nvidiav1alpha1.ServiceSpec) {
			d.Spec.Labels = map[string]string{"a": "b"}
		}, rolls: true},
		"priority of all": {change: func(d *nvidiav1alpha1.DynamoGraphDeployment, _ *nvidiav1alpha1.ServiceSpec) {
			d.Spec.PriorityClassName = "high"
		}, rolls: true},
		"discovery": {change: func(d *nvidiav1alpha1.DynamoGraphDeployment, _ *nvidiav1alpha1.ServiceSpec) {
			d.Annotations = map[string]string{annotationDiscoveryBackend: "etcd"}
		}, rolls: true},
		"the operator's NATS": {platform: Platform{NATS: "nats://other"}, rolls: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
			dgd.Name, dgd.Namespace = "g", "ns"
			a := &nvidiav1alpha1.ServiceSpec{ComponentType: "worker", Multinode: &nvidiav1alpha1.MultinodeSpec{NodeCount: 2}}
			dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{"A": a, "B": {ComponentType: "frontend"}}
			stored := storedGroup(t, dgd)
			if test.change != nil {
				test.change(dgd, a)
			}
			changed, err := Resolve(hub.Of(dgd), Inputs{Groups: map[string]*trellisv1alpha1.ScalingGroup{"A": stored}, Topology: hallOne(t), Provider: specs.Gates.Name, Platform: test.platform})
			if err != nil {
				t.Fatal(err)
			}
			s := changed.Components[0]
			if rolls := s.Revision != "stored"; rolls != test.rolls {
				t.Errorf("rolls = %v, want %v", rolls, test.rolls)
			}
			if kept := s.Roles[0].Template.Labels["stored"] == "1"; kept == test.rolls {
				t.Errorf("the stored templates are kept: %v", kept)
			}
		})
	}
}

// TestInputOfAnotherForm: roles that cannot be compared with the deployment are adopted, and today's hash is stored.
func TestInputOfAnotherForm(t *testing.T) {
	for name, input := range map[string]*trellisv1alpha1.TemplateInput{"none": nil, "older": {Form: 0, Hash: "x"}, "newer": {Form: inputForm + 1, Hash: "x"}} {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
			dgd.Name, dgd.Namespace = "g", "ns"
			dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{"A": {ComponentType: "worker"}}
			stored := storedGroup(t, dgd)
			stored.Spec.Input = input
			dgd.Spec.Services["A"].Envs = []corev1.EnvVar{{Name: "X"}}
			g, err := Resolve(hub.Of(dgd), Inputs{Groups: map[string]*trellisv1alpha1.ScalingGroup{"A": stored}, Provider: specs.Gates.Name})
			if err != nil {
				t.Fatal(err)
			}
			if s := g.Components[0]; !s.Adopted || s.Revision != "stored" || s.Input.Form != inputForm || s.Input.Hash == "x" {
				t.Errorf("adopted = %v, revision %s, input %+v", s.Adopted, s.Revision, s.Input)
			}
		})
	}
}

// storedGroup is the group of component A as it is in the cluster, with a template and a revision that only another version would make.
func storedGroup(t *testing.T, dgd *nvidiav1alpha1.DynamoGraphDeployment) *trellisv1alpha1.ScalingGroup {
	t.Helper()
	g, err := Resolve(hub.Of(dgd), Inputs{Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	stored := g.ScalingGroups()[0]
	stored.Spec.Revision = "stored"
	for i := range stored.Spec.Roles {
		stored.Spec.Roles[i].Template.Labels["stored"] = "1"
	}
	return stored
}
