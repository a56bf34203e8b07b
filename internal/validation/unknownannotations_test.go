// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// TestUnknownAnnotations: a misspelled annotation is answered with the one that was meant, wherever it is written. Those of others, and
// those of the operator, are not.
func TestUnknownAnnotations(t *testing.T) {
	const own = "metadata.annotations[trellis.dev/"
	for name, tc := range map[string]struct {
		deployment, spec, component []string
		want                        []string
	}{
		"known":             {deployment: usersAnnotations, spec: operatorsAnnotations},
		"of others":         {deployment: []string{"example.com/provider", "nvidia.com/gpu.product", "kubectl.kubernetes.io/last-applied-configuration", "trellis", "kai.scheduler/x"}},
		"one letter":        {deployment: []string{"trellis.dev/distinct-host"}, want: []string{own + "distinct-host] is not known and has no effect; did you mean trellis.dev/distinct-hosts?"}},
		"in the spec":       {spec: []string{"trellis.dev/provder"}, want: []string{"spec.annotations[trellis.dev/provder] is not known and has no effect; did you mean trellis.dev/provider?"}},
		"of a component":    {component: []string{"trellis.dev/compute-domian"}, want: []string{"spec.components[0].podTemplate.metadata.annotations[trellis.dev/compute-domian] is not known and has no effect; did you mean trellis.dev/compute-domain?"}},
		"the wrong domain":  {deployment: []string{"trellis.dev/deployment-strategy"}, want: []string{own + "deployment-strategy] is not known and has no effect; did you mean nvidia.com/deployment-strategy?"}},
		"a misspelled one":  {deployment: []string{"trelis.dev/distinct-hosts"}, want: []string{"metadata.annotations[trelis.dev/distinct-hosts] is not known and has no effect; did you mean trellis.dev/distinct-hosts?"}},
		"of the KAI kind":   {deployment: []string{"kai.scheduler/topology-required-placment"}, want: []string{"metadata.annotations[kai.scheduler/topology-required-placment] is not known and has no effect; did you mean kai.scheduler/topology-required-placement?"}},
		"like none of them": {deployment: []string{"trellis.dev/colour", "trellis.dev/x"}, want: []string{"metadata.annotations[*] is not known and has no effect (trellis.dev/colour, trellis.dev/x)"}},
		"too long to compare": {deployment: []string{ownDomain + strings.Repeat("a", 300)}, want: []string{
			own + strings.Repeat("a", 80-len(ownDomain)) + "...] is not known and has no effect"}},
	} {
		keys := func(list []string) map[string]string {
			out := map[string]string{}
			for _, key := range list {
				out[key] = "true"
			}
			return out
		}
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		dgd.Annotations, dgd.Spec.Annotations = keys(tc.deployment), keys(tc.spec)
		template := &corev1.PodTemplateSpec{}
		template.Annotations = keys(tc.component)
		dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "Worker", PodTemplate: template}}
		if diff := cmp.Diff(tc.want, textsIn(unknownAnnotations(FromHub(dgd), nil), "v1beta1")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUnknownAnnotationsAreWarnedOf: admission and plans warn of them.
func TestUnknownAnnotationsAreWarnedOf(t *testing.T) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Annotations = map[string]string{"trellis.dev/distinct-host": "true"}
	want := []string{"metadata.annotations[trellis.dev/distinct-host] is not known and has no effect; did you mean trellis.dev/distinct-hosts?"}
	if diff := cmp.Diff(want, textsIn(GraphWarnings(FromHub(dgd), nil, nil), "v1beta1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var annotationConstant = regexp.MustCompile(`[aA]nnotation\w*\s*=\s*"(trellis\.dev/[^"]+)"`)

// TestAnnotationsAreKnown: every annotation of Trellis in the code is in one of the two lists, and none is in them that the code does not
// have.
func TestAnnotationsAreKnown(t *testing.T) {
	found := map[string]bool{"trellis.dev/rollout-ask-frontends": true} // no longer acted on
	err := filepath.WalkDir(filepath.Join("..", "..", "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, match := range annotationConstant.FindAllStringSubmatch(string(data), -1) {
			found[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	known := slices.DeleteFunc(slices.Concat(usersAnnotations, operatorsAnnotations), func(key string) bool { return !strings.HasPrefix(key, ownDomain) })
	slices.Sort(known)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(found)), known); diff != "" {
		t.Errorf("annotations in the code, and in the lists (-code +lists):\n%s", diff)
	}
}
