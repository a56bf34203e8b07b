// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
	resolved "github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{nvidiav1alpha1.AddToScheme, nvidiav1beta1.AddToScheme, grovev1alpha1.AddToScheme,
		topologybinding.AddToScheme, trellisv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

func request(operation admissionv1.Operation, object, old string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Object: runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(old)},
	}}
}

// The patch holds the defaults and nothing else, whatever the object looks like.
func TestDefaulterPatch(t *testing.T) {
	replicas := func(component string) jsonpatch.JsonPatchOperation {
		return jsonpatch.NewOperation("add", "/spec/services/"+component+"/replicas", float64(1))
	}
	tests := map[string]struct {
		object string
		want   []jsonpatch.JsonPatchOperation
	}{
		"nothing to default": {object: `{"spec":{"services":{"A":{"replicas":0}}}}`},
		"a pod spec inside, with all that a round trip would change": {
			object: `{"metadata":{"name":"x"},"spec":{"futureField":{"a":null},"services":{"A":{"sharedMemory":{"disabled":true},"unknown":1.50,` +
				`"extraPodSpec":{"tolerations":[{"operator":"Exists","futureField":9007199254740993}],"mainContainer":{"image":"i","resources":{"limits":{"cpu":"1000m","memory":"1024Mi"}}}}}}}}`,
			want: []jsonpatch.JsonPatchOperation{replicas("A")},
		},
		"a quantity that is none": {
			object: `{"spec":{"services":{"A":{"sharedMemory":{"size":"abc"},"extraPodSpec":{"mainContainer":{"resources":{"limits":{"cpu":{}}}}}}}}}`,
			want:   []jsonpatch.JsonPatchOperation{replicas("A")},
		},
		"null replicas": {
			object: `{"spec":{"services":{"A":{"replicas":null}}}}`,
			want:   []jsonpatch.JsonPatchOperation{jsonpatch.NewOperation("replace", "/spec/services/A/replicas", float64(1))},
		},
		"odd service names":  {object: `{"spec":{"services":{"a/b~c":{}}}}`, want: []jsonpatch.JsonPatchOperation{replicas("a~1b~0c")}},
		"a service of null":  {object: `{"spec":{"services":{"A":null}}}`},
		"services of a list": {object: `{"spec":{"services":[{}]}}`},
		"no spec":            {object: `{"metadata":{}}`},
		"being deleted":      {object: `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"services":{"A":{}}}}`},
	}
	hook := handlers(testScheme(), Options{})[mutateDeploymentPath]
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
				response := hook.Handle(t.Context(), request(operation, tc.object, tc.object))
				if !response.Allowed {
					t.Fatalf("refused: %v", response.Result)
				}
				var got []jsonpatch.JsonPatchOperation
				if len(response.Patch) > 0 {
					if err := json.Unmarshal(response.Patch, &got); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("patch (-want +got):\n%s", diff)
				}
			}
		})
	}
}

const (
	validGraph = `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"llm"},"spec":{` +
		`"topologyConstraint":{"topologyProfile":"gb200","packDomain":"rack"},"services":{"A":{"replicas":1,"extraPodSpec":{"mainContainer":{"image":"i"}}}}}}`
	scaledGraph = `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"llm"},"spec":{` +
		`"topologyConstraint":{"topologyProfile":"gb200","packDomain":"rack"},"services":{"A":{"replicas":2,"extraPodSpec":{"mainContainer":{"image":"i"}}}}}}`
)

// twoTopologies names one by its constraint and another by its transfer policy.
var twoTopologies = strings.Replace(validGraph, `"services"`, `"experimental":{"kvTransferPolicy":{"clusterTopologyName":"h100","domain":"rack"}},"services"`, 1)

func gb200() *grovev1alpha1.ClusterTopology {
	return &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "gb200"}, Spec: grovev1alpha1.ClusterTopologySpec{
		Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "example.com/zone"}, {Domain: "rack", Key: "example.com/rack"}},
	}}
}

// The ClusterTopology is read on create, whatever the generation says, and never again.
func TestValidatorReadsOnCreateOnly(t *testing.T) {
	resource := schema.GroupResource{Group: "grove.io", Resource: "clustertopologies"}
	tests := map[string]struct {
		operation admissionv1.Operation
		object    string
		readErr   error
		wantReads int
		wantCode  int32
		wantText  string
	}{
		"create":                    {operation: admissionv1.Create, object: validGraph, wantReads: 1, wantCode: http.StatusOK},
		"create, forbidden":         {operation: admissionv1.Create, object: validGraph, readErr: apierrors.NewForbidden(resource, "gb200", errors.New("no")), wantReads: 1, wantCode: http.StatusInternalServerError, wantText: "allow the operator's ServiceAccount to get"},
		"create, server error":      {operation: admissionv1.Create, object: validGraph, readErr: errors.New("etcd is away"), wantReads: 1, wantCode: http.StatusServiceUnavailable, wantText: `failed to read ClusterTopology "gb200" for topology validation: etcd is away; nothing wrong was found in the DynamoGraphDeployment; try again`},
		"create, not installed":     {operation: admissionv1.Create, object: validGraph, readErr: &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ClusterTopology"}}, wantReads: 1, wantCode: http.StatusInternalServerError, wantText: "install the CustomResourceDefinition"},
		"create, not found":         {operation: admissionv1.Create, object: validGraph, readErr: apierrors.NewNotFound(resource, "gb200"), wantReads: 1, wantCode: http.StatusUnprocessableEntity, wantText: "ClusterTopology not found"},
		"create, no name at all":    {operation: admissionv1.Create, object: strings.Replace(validGraph, "gb200", "a/b", 1), readErr: errors.New("invalid resource name"), wantCode: http.StatusUnprocessableEntity, wantText: "ClusterTopology not found"},
		"scaled while it is gone":   {operation: admissionv1.Update, object: scaledGraph, readErr: apierrors.NewNotFound(resource, "gb200"), wantCode: http.StatusOK},
		"touched while it is gone":  {operation: admissionv1.Update, object: validGraph, readErr: apierrors.NewNotFound(resource, "gb200"), wantCode: http.StatusOK},
		"create, no constraint":     {operation: admissionv1.Create, object: `{"metadata":{"name":"llm"},"kind":"DynamoGraphDeployment","apiVersion":"nvidia.com/v1alpha1","spec":{"services":{"A":{"extraPodSpec":{"mainContainer":{"image":"i"}}}}}}`, wantCode: http.StatusOK},
		"create, not decodable":     {operation: admissionv1.Create, object: strings.Replace(validGraph, `"replicas":1`, `"replicas":3000000000`, 1), wantCode: http.StatusBadRequest, wantText: "replicas"},
		"deletion is never refused": {operation: admissionv1.Delete, object: validGraph, readErr: apierrors.NewNotFound(resource, "gb200"), wantCode: http.StatusOK},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reads := 0
			live := fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(gb200()).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if reads++; tc.readErr != nil {
						return tc.readErr
					}
					return c.Get(ctx, key, obj, opts...)
				},
			}).Build()
			hook := handlers(testScheme(), Options{Live: live})[validateDeploymentPath]
			response := hook.Handle(t.Context(), request(tc.operation, tc.object, validGraph))
			if response.Result.Code != tc.wantCode || !strings.Contains(response.Result.Message, tc.wantText) {
				t.Errorf("got %d %q, want %d with %q", response.Result.Code, response.Result.Message, tc.wantCode, tc.wantText)
			}
			if reads != tc.wantReads {
				t.Errorf("%d reads, want %d", reads, tc.wantReads)
			}
		})
	}
}

// An API server that does not answer ends in a refusal before the caller gives up.
func TestValidatorDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := fake.NewClientBuilder().WithScheme(testScheme()).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				<-ctx.Done()
				return ctx.Err()
			},
		}).Build()
		since := time.Now()
		response := handlers(testScheme(), Options{Live: live})[validateDeploymentPath].Handle(t.Context(), request(admissionv1.Create, twoTopologies, ""))
		if took := time.Since(since); took > readTimeout {
			t.Errorf("both reads took %s, longer than %s", took, readTimeout)
		}
		if response.Allowed || response.Result.Code != http.StatusServiceUnavailable || !strings.Contains(response.Result.Message, "context deadline exceeded") {
			t.Errorf("got %v", response.Result)
		}
	})
}

// Users are warned when the spec is written, not each time a controller or they themselves touch the metadata.
func TestValidatorWarnings(t *testing.T) {
	live := fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(gb200()).Build()
	hook := handlers(testScheme(), Options{
		Live: live,
		NotActedOn: func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []resolved.Ignored {
			return []resolved.Ignored{{Path: field.NewPath("spec", "experimental")}}
		},
		Warnings: func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []field.Text {
			return []field.Text{field.Say("mind the gap")}
		},
	})[validateDeploymentPath]
	want := []string{"spec.experimental is accepted but not acted on", "mind the gap"}
	labelled := strings.Replace(validGraph, `"name":"llm"`, `"name":"llm","labels":{"a":"b"}`, 1)
	for name, tc := range map[string]struct {
		request admission.Request
		want    []string
	}{
		"create":   {request(admissionv1.Create, validGraph, ""), want},
		"scaled":   {request(admissionv1.Update, scaledGraph, validGraph), want},
		"labelled": {request(admissionv1.Update, labelled, validGraph), nil},
	} {
		t.Run(name, func(t *testing.T) {
			response := hook.Handle(t.Context(), tc.request)
			if diff := cmp.Diff(tc.want, response.Warnings); diff != "" || !response.Allowed {
				t.Errorf("allowed %v, warnings (-want +got):\n%s", response.Allowed, diff)
			}
		})
	}
}

func TestPanicIsAnError(t *testing.T) {
	hook := handlers(testScheme(), Options{
		Live:       fake.NewClientBuilder().WithScheme(testScheme()).WithObjects(gb200()).Build(),
		NotActedOn: func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []resolved.Ignored { panic("oh") },
	})[validateDeploymentPath]
	if response := hook.Handle(t.Context(), request(admissionv1.Create, validGraph, "")); response.Allowed {
		t.Error("allowed")
	}
}
