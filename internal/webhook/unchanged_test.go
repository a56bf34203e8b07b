// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"os"
	"path/filepath"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// What is stored may be invalid by the rules of today. It is rewritten by a write that changes nothing, which passes in either version.
func TestUnchangedObjectsPass(t *testing.T) {
	live := fake.NewClientBuilder().WithScheme(testScheme()).Build()
	hooks := handlers(testScheme(), Options{Live: live, Deployments: live, MaxPods: 1})
	ask := func(operation admissionv1.Operation, version string, now, before []byte) bool {
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: operation, Object: runtime.RawExtension{Raw: now}, OldObject: runtime.RawExtension{Raw: before}, UserInfo: authenticationv1.UserInfo{Username: "ann"},
			Kind: metav1.GroupVersionKind{Group: "nvidia.com", Version: version, Kind: "DynamoGraphDeployment"},
		}}
		for _, path := range []string{mutateDeploymentPath, validateDeploymentPath} {
			if response := hooks[path].Handle(t.Context(), request); !response.Allowed {
				return false
			}
		}
		return true
	}
	files, err := filepath.Glob("../../config/samples/rejected/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		alpha, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		beta, err := nvidiav1alpha1.ConvertJSON(alpha, "v1beta1")
		if err != nil {
			t.Fatal(err)
		}
		for version, raw := range map[string][]byte{"v1alpha1": alpha, "v1beta1": beta} {
			if !ask(admissionv1.Create, version, raw, nil) {
				refused++
			}
			if !ask(admissionv1.Update, version, raw, raw) {
				t.Errorf("%s in %s: an update that changes nothing is refused", filepath.Base(file), version)
			}
		}
	}
	if refused < len(files) {
		t.Errorf("%d of %d objects are refused on create; this test is about those", refused, 2*len(files))
	}
}
