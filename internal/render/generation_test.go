// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// disaggregated is a deployment of a frontend, a prefill and a decode component.
func disaggregated() *nvidiav1beta1.DynamoGraphDeployment {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Name, dgd.Namespace = "llm", "team"
	for _, c := range []nvidiav1beta1.ComponentSpec{
		{Name: "frontend", Type: nvidiav1beta1.ComponentTypeFrontend},
		{Name: "prefill", Type: nvidiav1beta1.ComponentTypePrefill, Replicas: ptr.To[int32](2)},
		{Name: "decode", Type: nvidiav1beta1.ComponentTypeDecode, Replicas: ptr.To[int32](4)},
	} {
		c.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "runtime:1.5.0"}}}}
		dgd.Spec.Components = append(dgd.Spec.Components, c)
	}
	return dgd
}

func setImage(dgd *nvidiav1beta1.DynamoGraphDeployment, component, image string) {
	dgd.Component(component).PodTemplate.Spec.Containers[0].Image = image
}

// stored resolves a deployment on the groups there are, and returns the groups as they are written.
func stored(t *testing.T, dgd *nvidiav1beta1.DynamoGraphDeployment, groups map[string]*trellisv1alpha1.ScalingGroup) map[string]*trellisv1alpha1.ScalingGroup {
	t.Helper()
	in := Inputs{Provider: specs.Gates.Name, Groups: groups, Topology: hallOne(t)}
	if c := dgd.Spec.TopologyConstraint; c != nil {
		in.Topology.Name = c.ClusterTopologyName
	}
	g, err := Resolve(dgd, in)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*trellisv1alpha1.ScalingGroup{}
	for _, sg := range g.ScalingGroups() {
		out[sg.Spec.Component] = sg
	}
	return out
}

// unsuffixed are the groups as an operator without generations wrote them.
func unsuffixed(t *testing.T, dgd *nvidiav1beta1.DynamoGraphDeployment) map[string]*trellisv1alpha1.ScalingGroup {
	t.Helper()
	off := dgd.DeepCopy()
	off.Annotations = map[string]string{AnnotationGenerations: "false"}
	return stored(t, off, nil)
}

func generationsOf(groups map[string]*trellisv1alpha1.ScalingGroup) map[string]string {
	out := map[string]string{}
	for name, sg := range groups {
		out[name] = GenerationOf(sg)
	}
	return out
}

func revisionsOf(groups map[string]*trellisv1alpha1.ScalingGroup) map[string]string {
	out := map[string]string{}
	for name, sg := range groups {
		out[name] = sg.Spec.Revision
	}
	return out
}

// TestGeneration: the workers of a new deployment have a generation of their own, which their pods carry for Dynamo's programs.
func TestGeneration(t *testing.T) {
	groups := stored(t, disaggregated(), nil)
	hash := GenerationOf(groups["decode"])
	if len(hash) != 8 {
		t.Fatalf("the generation is %q", hash)
	}
	if diff := cmp.Diff(map[string]string{"frontend": "", "prefill": hash, "decode": hash}, generationsOf(groups)); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"frontend": "team-llm", "prefill": "team-llm-" + hash, "decode": "team-llm-" + hash} {
		if got := RuntimeNamespace(groups[name]); got != want {
			t.Errorf("the runtime namespace of %s is %q, want %q", name, got, want)
		}
	}
	pod := BuildPod(groups["decode"], 0, 0)
	got := []string{pod.Labels["nvidia.com/dynamo-worker-hash"], valueOf(pod, "DYN_NAMESPACE_WORKER_SUFFIX"), valueOf(pod, "DYN_NAMESPACE")}
	if diff := cmp.Diff([]string{hash, hash, "team-llm"}, got); diff != "" {
		t.Errorf("label, suffix and namespace of a worker's pod (-want +got):\n%s", diff)
	}
	if _, labelled := groups["decode"].Labels[LabelWorkerHash]; labelled {
		t.Error("Services have labels of the group, and would reach one generation only")
	}
}

// TestWhatMakesAGeneration: which changes of a deployment replace its workers, all together, and which leave all of them alone.
func TestWhatMakesAGeneration(t *testing.T) {
	tests := map[string]struct {
		change func(*nvidiav1beta1.DynamoGraphDeployment)
		makes  bool
	}{
		"nothing":      {change: func(*nvidiav1beta1.DynamoGraphDeployment) {}},
		"replicas":     {change: func(d *nvidiav1beta1.DynamoGraphDeployment) { d.Component("decode").Replicas = ptr.To[int32](7) }},
		"minAvailable": {change: func(d *nvidiav1beta1.DynamoGraphDeployment) { d.Component("decode").MinAvailable = ptr.To[int32](2) }},
		"scaling adapter": {change: func(d *nvidiav1beta1.DynamoGraphDeployment) {
			d.Component("decode").ScalingAdapter = &nvidiav1beta1.ScalingAdapter{}
		}},
		"the frontend": {change: func(d *nvidiav1beta1.DynamoGraphDeployment) { setImage(d, "frontend", "runtime:1.6.0") }},
		"how to roll": {change: func(d *nvidiav1beta1.DynamoGraphDeployment) {
			d.Annotations = map[string]string{"nvidia.com/deployment-strategy": "Recreate"}
		}},
		"generations off": {change: func(d *nvidiav1beta1.DynamoGraphDeployment) {
			d.Annotations = map[string]string{AnnotationGenerations: "false"}
		}},
		"what the tag says already":  {change: func(d *nvidiav1beta1.DynamoGraphDeployment) { d.Component("decode").RuntimeVersionOverride = "1.5.0" }},
		"the image of one component": {change: func(d *nvidiav1beta1.DynamoGraphDeployment) { setImage(d, "decode", "runtime:1.6.0") }, makes: true},
		"a variable of all": {change: func(d *nvidiav1beta1.DynamoGraphDeployment) {
			d.Spec.Env = []corev1.EnvVar{{Name: "X", Value: "1"}}
		}, makes: true},
		"nodeCount": {change: func(d *nvidiav1beta1.DynamoGraphDeployment) {
			d.Component("decode").Multinode = &nvidiav1beta1.MultinodeSpec{NodeCount: 3}
		}, makes: true},
	}
	for name, test := range tests {
		for from, groups := range map[string]map[string]*trellisv1alpha1.ScalingGroup{
			"a generation": stored(t, disaggregated(), nil), "none": unsuffixed(t, disaggregated()),
		} {
			t.Run(name+", from "+from, func(t *testing.T) {
				before := revisionsOf(groups)
				dgd := disaggregated()
				test.change(dgd)
				now := stored(t, dgd, groups)
				for _, worker := range []string{"prefill", "decode"} {
					if rolls := now[worker].Spec.Revision != before[worker]; rolls != test.makes {
						t.Errorf("%s rolls: %v, want %v", worker, rolls, test.makes)
					}
				}
				if test.makes && (GenerationOf(now["prefill"]) == "" || GenerationOf(now["prefill"]) == GenerationOf(groups["prefill"])) {
					t.Errorf("the generation %q follows %q", GenerationOf(now["prefill"]), GenerationOf(groups["prefill"]))
				}
				if GenerationOf(now["prefill"]) != GenerationOf(now["decode"]) {
					t.Errorf("two generations at once: %v", generationsOf(now))
				}
			})
		}
	}
}

// TestGenerationOfWhatIsHalfWritten: whichever groups were written before the operator ended, the others follow, and the written ones stay.
func TestGenerationOfWhatIsHalfWritten(t *testing.T) {
	before := unsuffixed(t, disaggregated())
	dgd := disaggregated()
	setImage(dgd, "prefill", "runtime:1.6.0")
	after := stored(t, dgd, before)
	for _, written := range []string{"prefill", "decode"} {
		half := maps.Clone(before)
		half[written] = after[written]
		if diff := cmp.Diff(revisionsOf(after), revisionsOf(stored(t, dgd, half))); diff != "" {
			t.Errorf("with %s written (-want +got):\n%s", written, diff)
		}
		half = maps.Clone(after)
		delete(half, written)
		if diff := cmp.Diff(revisionsOf(after), revisionsOf(stored(t, dgd, half))); diff != "" {
			t.Errorf("without %s (-want +got):\n%s", written, diff)
		}
	}
	lost := maps.Clone(before)
	delete(lost, "decode")
	if diff := cmp.Diff(revisionsOf(before), revisionsOf(stored(t, disaggregated(), lost))); diff != "" {
		t.Errorf("a group that is written again is of the others' generation, here none (-want +got):\n%s", diff)
	}
}

// TestGenerationOfFormerTemplates: a deployment that says what it said before has the generation that it had, so that pods of it that are still there
// are current again.
func TestGenerationOfFormerTemplates(t *testing.T) {
	first := stored(t, disaggregated(), nil)
	dgd := disaggregated()
	setImage(dgd, "decode", "runtime:1.6.0")
	second := stored(t, dgd, first)
	if diff := cmp.Diff(revisionsOf(first), revisionsOf(stored(t, disaggregated(), second))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGenerationsOff: with the annotation, the next change puts the workers into one namespace again, and replaces only what it is about from then on.
func TestGenerationsOff(t *testing.T) {
	dgd := disaggregated()
	groups := stored(t, dgd, nil)
	dgd.Annotations = map[string]string{AnnotationGenerations: "false"}
	setImage(dgd, "decode", "runtime:1.6.0")
	off := stored(t, dgd, groups)
	if diff := cmp.Diff(map[string]string{"frontend": "", "prefill": "", "decode": ""}, generationsOf(off)); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	setImage(dgd, "decode", "runtime:1.7.0")
	now := stored(t, dgd, off)
	if now["decode"].Spec.Revision == off["decode"].Spec.Revision || now["prefill"].Spec.Revision != off["prefill"].Spec.Revision {
		t.Errorf("before %v, now %v", revisionsOf(off), revisionsOf(now))
	}
}

// TestGenerationOfBothVersions: a deployment written in v1alpha1 has the generation of the same one written in v1beta1.
func TestGenerationOfBothVersions(t *testing.T) {
	for _, pair := range []string{"gate", "search"} {
		generations := map[string]string{}
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			written := documentsIn(t, "testdata/pairs/"+pair+"."+version+".yaml")[0]
			if err := json.Unmarshal(convertJSON(t, written, "v1beta1"), dgd); err != nil {
				t.Fatal(err)
			}
			for _, sg := range stored(t, dgd, nil) {
				if generation := GenerationOf(sg); generation != "" {
					generations[version] = generation
				}
			}
		}
		if generations["v1alpha1"] == "" || generations["v1alpha1"] != generations["v1beta1"] {
			t.Errorf("%s: %v", pair, generations)
		}
	}
}

// TestGroupsWrittenWithoutGenerations: groups as commit 1058958 wrote them (testdata/unsuffixed/search.yaml, which is never edited) stay as they are, in both
// versions of the API, until a worker changes.
func TestGroupsWrittenWithoutGenerations(t *testing.T) {
	groups := storedGroups(t, "testdata/unsuffixed/search.yaml")
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		if err := json.Unmarshal(convertJSON(t, documentsIn(t, "testdata/pairs/search."+version+".yaml")[0], "v1beta1"), dgd); err != nil {
			t.Fatal(err)
		}
		dgd.Namespace = "team"
		now := stored(t, dgd, groups)
		for name, sg := range groups {
			if diff := cmp.Diff(sg.Spec, now[name].Spec); diff != "" {
				t.Errorf("%s, %s (-written +now):\n%s", version, name, diff)
			}
		}
		setImage(dgd, "Decode", "runtime:1.6.0")
		for name, generation := range generationsOf(stored(t, dgd, groups)) {
			if (generation != "") != (name != "Frontend") {
				t.Errorf("%s: after a change %s has the generation %q", version, name, generation)
			}
		}
	}
}

// TestHowWorkersRollIsNotAboutTheirPods: annotations of the deployment alone reach no pod from other places, and a change of them replaces none.
func TestHowWorkersRollIsNotAboutTheirPods(t *testing.T) {
	annotations := map[string]string{
		"trellis.dev/rolling-update-max-surge": "1", "trellis.dev/rolling-update-max-unavailable": "1", AnnotationGenerations: "false",
		"trellis.dev/rollout-ask-frontends": "true",
	}
	groups := stored(t, disaggregated(), nil)
	for place, write := range map[string]func(*nvidiav1beta1.DynamoGraphDeployment){
		"spec.annotations": func(d *nvidiav1beta1.DynamoGraphDeployment) { d.Spec.Annotations = annotations },
		"podTemplate": func(d *nvidiav1beta1.DynamoGraphDeployment) {
			d.Component("decode").PodTemplate.Annotations = annotations
		},
	} {
		dgd := disaggregated()
		write(dgd)
		if diff := cmp.Diff(groups["decode"].Spec, stored(t, dgd, groups)["decode"].Spec); diff != "" {
			t.Errorf("%s (-without +with):\n%s", place, diff)
		}
		ignored := map[string]bool{}
		for _, i := range NotActedOn(dgd, nvidiav1alpha1.AlphaOnly{}, specs.Gates.Name) {
			ignored[i.Path.String()] = true
		}
		if len(ignored) != len(annotations) {
			t.Errorf("%s: not acted on are %v", place, ignored)
		}
	}
}

// TestLabelOfTheUser: the label of a generation in a deployment is none, also on groups that an operator without generations wrote with it.
func TestLabelOfTheUser(t *testing.T) {
	dgd := disaggregated()
	dgd.Spec.Labels = map[string]string{LabelWorkerHash: "copied"}
	groups := unsuffixed(t, dgd)
	for name, sg := range groups {
		if label, labelled := sg.Spec.Roles[0].Template.Labels[LabelWorkerHash]; labelled {
			t.Errorf("pods of %s have the label %q", name, label)
		}
	}
	for _, sg := range groups {
		sg.Spec.Roles[0].Template.Labels[LabelWorkerHash] = "copied"
		sg.Spec.Revision = revision(sg.Spec.Roles)
	}
	groups["decode"].Spec.Roles[0].Template.Labels[LabelWorkerHash] = "another"
	groups["decode"].Spec.Revision = revision(groups["decode"].Spec.Roles)
	before := revisionsOf(groups)
	if diff := cmp.Diff(map[string]string{"frontend": "", "prefill": "", "decode": ""}, generationsOf(groups)); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, revisionsOf(stored(t, dgd, groups))); diff != "" {
		t.Errorf("revisions after an upgrade (-before +after):\n%s", diff)
	}
}

// storedGroups are the scaling groups in a file, by component.
func storedGroups(t *testing.T, file string) map[string]*trellisv1alpha1.ScalingGroup {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]*trellisv1alpha1.ScalingGroup{}
	for document := range strings.SplitSeq(string(raw), "---\n") {
		sg := &trellisv1alpha1.ScalingGroup{}
		if err := yaml.UnmarshalStrict([]byte(document), sg); err != nil {
			t.Fatal(err)
		}
		groups[sg.Spec.Component] = sg
	}
	return groups
}
