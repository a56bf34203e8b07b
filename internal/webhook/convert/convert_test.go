// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	alpha = `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"g","namespace":"n"},` +
		`"spec":{"services":{"Worker":{"replicas":2,"resources":{"limits":{"cpu":"1000m","gpu":"8"}},"envs":[]}}}}`
	adapter = `{"apiVersion":"nvidia.com/v1beta1","kind":"DynamoGraphDeploymentScalingAdapter","metadata":{"name":"g-w"},` +
		`"spec":{"dgdRef":{"name":"g","componentName":"W"},"replicas":3}}`
)

// ask sends a body and returns the code and, of a 200, the answer.
func ask(t testing.TB, h http.Handler, body string) (int, *apiextensionsv1.ConversionReview) {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body)))
	if recorder.Code != http.StatusOK {
		return recorder.Code, nil
	}
	review := &apiextensionsv1.ConversionReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), review); err != nil || review.Response == nil {
		t.Fatalf("answer %q: %v", recorder.Body.String(), err)
	}
	return recorder.Code, review
}

func reviewOf(desired string, objects ...string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u-1","desiredAPIVersion":"` + desired +
		`","objects":[` + strings.Join(objects, ",") + `]}}`
}

func TestConvertsThereAndBack(t *testing.T) {
	code, there := ask(t, Handler(), reviewOf("nvidia.com/v1beta1", alpha, alpha))
	if code != http.StatusOK || there.Response.Result.Status != metav1.StatusSuccess || len(there.Response.ConvertedObjects) != 2 {
		t.Fatalf("code %d, %+v", code, there)
	}
	if there.APIVersion != "apiextensions.k8s.io/v1" || there.Kind != "ConversionReview" || there.Response.UID != "u-1" || there.Request != nil {
		t.Errorf("the answer is no ConversionReview of the request: %+v", there)
	}
	beta := string(there.Response.ConvertedObjects[0].Raw)
	for _, part := range []string{`"nvidia.com/v1beta1"`, `"components"`, `"name":"Worker"`} {
		if !strings.Contains(beta, part) {
			t.Errorf("%s is missing in %s", part, beta)
		}
	}
	_, back := ask(t, Handler(), reviewOf("nvidia.com/v1alpha1", beta))
	if diff := cmp.Diff(tree(t, alpha), tree(t, string(back.Response.ConvertedObjects[0].Raw))); diff != "" {
		t.Errorf("there and back (-before, +after):\n%s", diff)
	}
}

func tree(t *testing.T, raw string) (out any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Partial objects come in a server-side apply, and an object of the wanted version stays as it is.
func TestConvertsWhatIsNotWhole(t *testing.T) {
	for _, object := range []string{
		`{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment"}`,
		`{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","spec":null,"metadata":null}`,
		`{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","spec":{"services":[7]},"status":"odd"}`,
		`{"apiVersion":"nvidia.com/v1beta1","kind":"DynamoGraphDeployment","spec":{"components":{"a":1}}}`,
		adapter, strings.Replace(adapter, "v1beta1", "v1alpha1", 1),
	} {
		for _, version := range []string{"nvidia.com/v1alpha1", "nvidia.com/v1beta1"} {
			code, answer := ask(t, Handler(), reviewOf(version, object))
			if code != http.StatusOK || answer.Response.Result.Status != metav1.StatusSuccess {
				t.Errorf("%s to %s: code %d, %+v", object, version, code, answer)
				continue
			}
			got := metav1.TypeMeta{}
			if err := json.Unmarshal(answer.Response.ConvertedObjects[0].Raw, &got); err != nil || got.APIVersion != version {
				t.Errorf("%s to %s: %v, %v", object, version, got, err)
			}
		}
	}
}

func TestRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		desired, object, want string
		panics                bool
	}{
		"unknown version":     {desired: "nvidia.com/v1", object: alpha, want: `"nvidia.com/v1"`},
		"unknown group":       {desired: "example.com/v1beta1", object: alpha, want: `"example.com/v1beta1"`},
		"no version":          {object: alpha, want: "the versions are nvidia.com/v1alpha1 and nvidia.com/v1beta1"},
		"a path for version":  {desired: "a/b/c", object: alpha, want: "a/b/c"},
		"unknown kind":        {desired: "nvidia.com/v1beta1", object: `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoWorkerMetadata"}`, want: `"DynamoWorkerMetadata"`},
		"another source":      {desired: "nvidia.com/v1beta1", object: strings.Replace(alpha, "v1alpha1", "v1", 1), want: `from "nvidia.com/v1"`},
		"no object":           {desired: "nvidia.com/v1beta1", object: `null`, want: "reading the kind"},
		"a number for object": {desired: "nvidia.com/v1beta1", object: `7`, want: "reading the kind"},
		"a panic":             {desired: "nvidia.com/v1beta1", object: alpha, want: "panic: out of order", panics: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := Handler()
			if c.panics {
				h = handler{convert: func([]byte, string) ([]byte, error) { panic("out of order") }}
			}
			code, answer := ask(t, h, reviewOf(c.desired, alpha, c.object))
			if code != http.StatusOK || answer.Response.UID != "u-1" || answer.Response.Result.Status != metav1.StatusFailure ||
				!strings.Contains(answer.Response.Result.Message, c.want) || len(answer.Response.ConvertedObjects) != 0 {
				t.Errorf("code %d, %+v; want a Failure with %q", code, answer, c.want)
			}
		})
	}
}

func TestAnswersBadRequests(t *testing.T) {
	for name, body := range map[string]string{
		"empty": "", "no JSON": "{", "a list": "[]", "no request": `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`,
		"another kind":    `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`,
		"another version": strings.Replace(reviewOf("nvidia.com/v1beta1", alpha), "k8s.io/v1", "k8s.io/v1beta1", 1),
		"too large":       `{"x":"` + strings.Repeat("x", maxRequest) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if code, _ := ask(t, Handler(), body); code != http.StatusBadRequest {
				t.Errorf("code %d, want 400", code)
			}
		})
	}
}

// Whatever comes in, the answer is a 400, a Failure, or as many objects as were sent.
func FuzzReviews(f *testing.F) {
	for _, seed := range []string{
		reviewOf("nvidia.com/v1beta1", alpha), reviewOf("nvidia.com/v1alpha1", adapter, adapter), reviewOf("nvidia.com/v1", alpha),
		reviewOf("nvidia.com/v1alpha1", strings.Replace(alpha, `"name":"g"`, `"annotations":{"nvidia.com/dgd-spec":"{\"pvcs\":[7]}"}`, 1)),
		reviewOf("nvidia.com/v1alpha1", strings.Replace(strings.Replace(alpha, "v1alpha1", "v1beta1", 1), `"services":{`, `"components":[{"name":"a"},null,7],"services":{`, 1)),
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"objects":null}}`, `{"request":{"objects":[{}]}}`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		code, answer := ask(t, Handler(), string(body))
		if code == http.StatusBadRequest {
			return
		}
		review := apiextensionsv1.ConversionReview{}
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&review); err != nil || review.Request == nil {
			t.Fatalf("code %d for what is no review: %v", code, err)
		}
		switch result := answer.Response.Result; result.Status {
		case metav1.StatusFailure:
			if strings.Contains(result.Message, "panic") {
				t.Fatal(result.Message)
			}
		case metav1.StatusSuccess:
			if len(answer.Response.ConvertedObjects) != len(review.Request.Objects) {
				t.Fatalf("%d objects for %d", len(answer.Response.ConvertedObjects), len(review.Request.Objects))
			}
		default:
			t.Fatalf("status %q", result.Status)
		}
	})
}
