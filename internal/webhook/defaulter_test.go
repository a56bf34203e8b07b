// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// TestMemoryIsKept: an update that drops what the other version alone can say gets it back, as kubectl replace drops it. What cannot be read may
// be dropped.
func TestMemoryIsKept(t *testing.T) {
	alpha := `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"llm"},"spec":{"pvcs":[{"name":"p"}],"services":{"A":{"replicas":1}}}}`
	stored, err := nvidiav1alpha1.ConvertJSON([]byte(alpha), "v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	const beta = `{"apiVersion":"nvidia.com/v1beta1","kind":"DynamoGraphDeployment","metadata":{"name":"llm"%s},"spec":{"components":[{"name":"A","replicas":1}]}}`
	plain := fmt.Sprintf(beta, "")
	for name, c := range map[string]struct {
		old, updated string
		kept         bool
	}{
		"dropped":      {string(stored), plain, true},
		"changed":      {string(stored), fmt.Sprintf(beta, `,"annotations":{"nvidia.com/dgd-spec":"{}"}`), false},
		"never there":  {plain, plain, false},
		"not readable": {fmt.Sprintf(beta, `,"annotations":{"nvidia.com/dgd-spec":"no JSON"}`), plain, false},
	} {
		t.Run(name, func(t *testing.T) {
			hook := handlers(testScheme(), Options{})[mutateDeploymentPath]
			response := hook.Handle(t.Context(), request(admissionv1.Update, c.updated, c.old))
			if !response.Allowed {
				t.Fatalf("refused: %v", response.Result)
			}
			var patch []struct {
				Path  string
				Value map[string]string
			}
			if len(response.Patch) > 0 {
				if err := json.Unmarshal(response.Patch, &patch); err != nil {
					t.Fatal(err)
				}
			}
			kept := len(patch) == 1 && patch[0].Path == "/metadata/annotations" && patch[0].Value[nvidiav1alpha1.AnnotationSpecMemory] != ""
			if kept != c.kept || !c.kept && len(patch) > 0 {
				t.Errorf("patch %s, kept = %v, want %v", response.Patch, kept, c.kept)
			}
		})
	}
}

// TestMinAvailableIsKept: 1 is the default. It returns where an update leaves it out, and any other number does not.
func TestMinAvailableIsKept(t *testing.T) {
	const head = `{"apiVersion":"nvidia.com/v1beta1","kind":"DynamoGraphDeployment",`
	alpha := func(more string) string { return head + `"spec":{"services":{"A":{"replicas":3` + more + `}}}}` }
	beta := func(more string) string {
		return head + `"spec":{"components":[{"name":"A","replicas":3` + more + `}]}}`
	}
	for name, c := range map[string]struct{ old, updated, patch string }{
		"left out":             {beta(`,"minAvailable":1`), beta(""), `[{"op":"add","path":"/spec/components/0/minAvailable","value":1}]`},
		"left out of v1alpha1": {alpha(`,"minAvailable":1`), alpha(""), `[{"op":"add","path":"/spec/services/A/minAvailable","value":1}]`},
		"2 left out":           {beta(`,"minAvailable":2`), beta(""), ""},
		"changed":              {beta(`,"minAvailable":1`), beta(`,"minAvailable":2`), ""},
		"never there":          {alpha(""), alpha(""), ""},
		"new":                  {"", beta(""), ""},
	} {
		operation := admissionv1.Update
		if c.old == "" {
			operation = admissionv1.Create
		}
		response := handlers(testScheme(), Options{})[mutateDeploymentPath].Handle(t.Context(), request(operation, c.updated, c.old))
		if got := string(response.Patch); got != c.patch {
			t.Errorf("%s: patch %s, want %s", name, got, c.patch)
		}
	}
}

// TestWhatDoesNotFitIsRefused: an object whose memory would not fit into the annotations of the other version.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	noise := make([]byte, 0, 400_000)
	for i := 0; len(noise) < 390_000; i++ {
		noise = fmt.Appendf(noise, "%x", i*2654435761%4294967291)
	}
	object := fmt.Sprintf(`{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"llm"},"spec":{"services":{"A":{"replicas":1,"extraPodSpec":{"mainContainer":{"image":"i"}},"autoscaling":{"x":%q}}}}}`, noise)
	response := handlers(testScheme(), Options{})[validateDeploymentPath].Handle(t.Context(), request(admissionv1.Create, object, ""))
	if response.Allowed || len(response.Result.Details.Causes) != 1 || response.Result.Details.Causes[0].Field != "metadata.annotations" {
		t.Errorf("got %+v", response.Result)
	}
}
