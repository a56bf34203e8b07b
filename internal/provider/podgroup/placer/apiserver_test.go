// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// An API server is asked as it is started: what it serves, and which fields it drops without a word because a gate is off. What is written
// into an API server that drops fields would be half constrained.
func TestProbeOfARealAPIServer(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run make test, or set it to what bin/kubectl-trellis sandbox binaries prints")
	}
	log.SetLogger(logr.Discard())
	const (
		beta, alpha = "scheduling.k8s.io/v1beta1=true", "scheduling.k8s.io/v1alpha3=true"
		all         = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
		noTree      = "compositepodgroups of scheduling.k8s.io/v1alpha3"
	)
	cases := map[string]struct {
		apis, gates string
		// missing is what is not served, group and pod what is taken out of them.
		missing, group, pod string
	}{
		"as it comes":             {missing: "podgroups and workloads of scheduling.k8s.io/v1beta1", pod: "the API server drops spec.schedulingGroup of pods"},
		"one version of two":      {apis: beta, gates: all, missing: noTree},
		"no topology":             {apis: beta + "," + alpha, gates: "GenericWorkload=true", missing: noTree, group: "the API server drops spec.schedulingConstraints of PodGroups"},
		"topology, but no groups": {apis: beta + "," + alpha, gates: "GenericWorkload=true,TopologyAwareWorkloadScheduling=true", missing: noTree, group: "the API server drops spec.parentCompositePodGroupName of PodGroups"},
		"all of it":               {apis: beta + "," + alpha, gates: all},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := onServer(t, c.apis, c.gates)
			state, err := p.Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.missing == "" && !state.Ready {
				t.Errorf("%+v", state)
			}
			if c.missing != "" && (state.Ready || state.Reason != "APINotServed" || !strings.Contains(state.Message, "does not serve "+c.missing+"; it takes Kubernetes 1.37")) {
				t.Errorf("%+v", state)
			}
			if lost, err := p.tryPod(t.Context()); lost != c.pod || err != nil {
				t.Errorf("a pod: %q, %v", lost, err)
			}
			if c.apis == "" {
				return // no group to try
			}
			if lost, err := p.tryGroup(t.Context()); lost != c.group || err != nil {
				t.Errorf("a group: %q, %v", lost, err)
			}
		})
	}
}

// onServer is the provider on an API server that is started with these APIs and feature gates.
func onServer(t *testing.T, apis, features string) Placer {
	t.Helper()
	env := &envtest.Environment{}
	arguments := env.ControlPlane.GetAPIServer().Configure()
	if apis != "" {
		arguments.Append("runtime-config", apis)
	}
	if features != "" {
		arguments.Append("feature-gates", features)
	}
	config, err := apiserver.Launch(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return Placer{Placer: gates.Placer{Client: c, Live: c}, Discovery: served, Namespace: "default"}
}
