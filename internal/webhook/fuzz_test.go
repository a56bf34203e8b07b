// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	resolved "github.com/trellis-k8s/trellis/internal/render"
)

// FuzzAdmission sends any payload to every webhook, as a new object and as a change. The answer is never a fault of the operator's, and the same
// again. A panic is one, too: the library answers it with 500.
func FuzzAdmission(f *testing.F) {
	files, err := filepath.Glob("../../config/samples/rejected/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		raw, err := yaml.YAMLToJSON(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, raw, "v1alpha1", "")
		f.Add(raw, []byte(`{"spec":{"services":{"A":{}}}}`), "v1alpha1", "")
	}
	f.Add([]byte(`{"spec":{"components":[{"name":"A","podTemplate":null},null]}}`), []byte(`null`), "v1beta1", "")
	f.Add([]byte(`{"spec":{"replicas":-1}}`), []byte(`{}`), "v1", "scale")
	f.Add([]byte(`{"apiVersion":"nvidia.com/v1beta1","kind":"DynamoGraphDeployment","metadata":{"annotations":{"nvidia.com/dgd-spec":"{\"services\":[7]}"}}}`), []byte(`[]`), "v1beta1", "")
	log.SetLogger(logr.Discard())
	live := fake.NewClientBuilder().WithScheme(testScheme()).Build()
	hooks := handlers(testScheme(), Options{Live: live, Deployments: live, MaxPods: 100, Warnings: resolved.LaunchWarnings})
	f.Fuzz(func(t *testing.T, object, old []byte, version, subresource string) {
		for path, hook := range hooks {
			group, kind := "nvidia.com", "DynamoGraphDeployment"
			switch {
			case strings.Contains(path, "scalingadapter"):
				kind = "DynamoGraphDeploymentScalingAdapter"
			case strings.Contains(path, "clustertopology"):
				group, kind = "grove.io", "ClusterTopology"
			}
			for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
				request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
					Operation: operation, SubResource: subresource, Namespace: "default", Name: "g", UserInfo: authenticationv1.UserInfo{Username: "ann"},
					Kind: metav1.GroupVersionKind{Group: group, Version: version, Kind: kind}, Object: runtime.RawExtension{Raw: object}, OldObject: runtime.RawExtension{Raw: old},
				}}
				one, two := hook.Handle(t.Context(), request), hook.Handle(t.Context(), request)
				if one.Result != nil && one.Result.Code >= http.StatusInternalServerError {
					t.Fatalf("%s %s: %d %s", operation, path, one.Result.Code, one.Result.Message)
				}
				if one.Allowed != two.Allowed || one.Result != nil && one.Result.Message != two.Result.Message {
					t.Fatalf("%s %s: %+v, then %+v", operation, path, one.Result, two.Result)
				}
			}
		}
	})
}
