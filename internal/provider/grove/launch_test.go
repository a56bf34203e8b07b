// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestWorkersCountFromOne runs a worker's command in a real shell and looks at what its program is given.
func TestWorkersCountFromOne(t *testing.T) {
	cases := map[string]struct{ command, want []string }{
		"a word of its own":    {[]string{"printf", "%s\n", "--rank", "$(TRELLIS_POD_INDEX)", "end"}, []string{"--rank", "3", "end"}},
		"inside a word, twice": {[]string{"printf", "%s\n", "a-$(TRELLIS_POD_INDEX)-b-$(TRELLIS_POD_INDEX)"}, []string{"a-3-b-3"}},
		"not mentioned":        {[]string{"printf", "%s\n", "plain", "", "two words", `"quoted' $HOME`}, []string{"plain", "", "two words", `"quoted' $HOME`}},
		"in a script":          {[]string{"sh", "-c", "echo rank=$(TRELLIS_POD_INDEX) twice=$((2 * TRELLIS_POD_INDEX))"}, []string{"rank=3 twice=6"}},
		"more than nine words": {strings.Fields("printf %s\\n 1 2 3 4 5 6 7 8 9 10 $(TRELLIS_POD_INDEX)"), []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "3"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dgd := providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec: {services: {A: {componentType: worker, multinode: {nodeCount: 4}, extraPodSpec: {mainContainer: {image: app}}}}}")
			main := &dgd.Component("A").PodTemplate.Spec.Containers[0]
			main.Command, main.Args = c.command[:1], c.command[1:]
			worker := grove.Render(providertest.Grove(t, dgd), grove.Schema{}).Spec.Template.Cliques[1].Spec.PodSpec.Containers[0]
			words := append(worker.Command, worker.Args...)
			cmd := exec.Command(words[0], words[1:]...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "GROVE_PCLQ_POD_INDEX=2"}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if diff := cmp.Diff(c.want, strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")); diff != "" {
				t.Errorf("%q (-want +got):\n%s", words, diff)
			}
		})
	}
}

// TestVariablesRefer only to variables before them: Grove's own come last.
func TestVariablesRefer(t *testing.T) {
	dgd := providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec: {services: {A: {componentType: worker, multinode: {nodeCount: 3}}}}")
	cliques := grove.Render(providertest.Grove(t, dgd), grove.Schema{}).Spec.Template.Cliques
	for _, clique := range cliques {
		env := clique.Spec.PodSpec.Containers[0].Env
		if env[0].Name != framework.EnvReplica || !strings.Contains(env[0].ValueFrom.FieldRef.FieldPath, "podcliquescalinggroup-replica-index") {
			t.Errorf("%s: the first variable is %v", clique.Name, env[0])
		}
		const leader = "g-0-a-$(TRELLIS_REPLICA)-a-ldr-0.g-0.ns.svc"
		if env[1].Value != leader {
			t.Errorf("%s: leader is %q, want %q", clique.Name, env[1].Value, leader)
		}
		if hosts := strings.Split(env[2].Value, ","); len(hosts) != 3 || hosts[0] != leader || hosts[2] != "g-0-a-$(TRELLIS_REPLICA)-a-wkr-1.g-0.ns.svc" {
			t.Errorf("%s: hosts are %q", clique.Name, hosts)
		}
	}
}

// TestNamesFit: whatever the names, Grove's limit on their sum holds, no two cliques share one, and short ones stay as they are.
func TestNamesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?`).Draw(t, "deployment")
		components := rapid.MapOfN(rapid.StringMatching(`[A-Za-z]([A-Za-z0-9-]{0,60}[a-z0-9])?(-ldr|-wkr)?`), rapid.Bool(), 1, 4).Draw(t, "services")
		var groups []*trellisv1alpha1.ScalingGroup
		lower := map[string]bool{}
		for component, multinode := range components {
			if lower[strings.ToLower(component)] {
				t.Skip("refused at admission")
			}
			lower[strings.ToLower(component)] = true
			sg := &trellisv1alpha1.ScalingGroup{}
			sg.Spec.Component, sg.Spec.Multinode = component, multinode
			sg.Spec.Roles = []trellisv1alpha1.Role{{Name: "leader", Count: 1}, {Name: "worker", Count: 1}}
			for i := range sg.Spec.Roles {
				sg.Spec.Roles[i].Template.Spec.Containers = make([]corev1.Container, 1)
			}
			groups = append(groups, sg)
		}
		pcs := grove.Render(grove.Input{Name: name, Groups: groups}, grove.Schema{})
		inGroup := map[string]string{}
		for _, group := range pcs.Spec.Template.PodCliqueScalingGroups {
			for _, clique := range group.CliqueNames {
				inGroup[clique] = group.Name
			}
		}
		seen := map[string]bool{}
		for _, clique := range pcs.Spec.Template.Cliques {
			if n := len(pcs.Name) + len(inGroup[clique.Name]) + len(clique.Name); n > 45 {
				t.Fatalf("%d characters: %s %s %s", n, pcs.Name, inGroup[clique.Name], clique.Name)
			}
			if seen[clique.Name] || len(validation.IsDNS1123Label(clique.Name)) > 0 {
				t.Fatalf("clique %q is there twice, or is no DNS label", clique.Name)
			}
			seen[clique.Name] = true
		}
		if problems := validation.IsDNS1035Label(pcs.Name); len(problems) > 0 {
			t.Fatalf("set %q: %v", pcs.Name, problems)
		}
	})
}

func TestShortNamesStay(t *testing.T) {
	dgd := providertest.Deployment(t, "metadata: {name: chat, namespace: ns}\nspec: {services: {Decode: {componentType: worker, multinode: {nodeCount: 2}}, Frontend: {componentType: frontend}}}")
	pcs := grove.Render(providertest.Grove(t, dgd), grove.Schema{})
	var names []string
	for _, clique := range pcs.Spec.Template.Cliques {
		names = append(names, clique.Name)
	}
	if diff := cmp.Diff([]string{"decode-ldr", "decode-wkr", "frontend"}, names); diff != "" || pcs.Name != "chat" {
		t.Errorf("%s (-want +got):\n%s", pcs.Name, diff)
	}
}
