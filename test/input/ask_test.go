// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// asked counts the requests.
var asked atomic.Int64

// answer of the API server.
type answer struct {
	code int
	body []byte
}

func (a answer) ok() bool { return a.code >= 200 && a.code < 300 }

// status of a refusal.
func (a answer) status() metav1.Status {
	s := metav1.Status{}
	if json.Unmarshal(a.body, &s) != nil {
		s.Message = string(a.body)
	}
	return s
}

func (k *kind) url(version, name string) string {
	namespace := ""
	if k.definition.Spec.Scope == "Namespaced" {
		namespace = "namespaces/default/"
	}
	out := fmt.Sprintf("%s/apis/%s/%s/%s%s", api.url, k.definition.Spec.Group, version, namespace, k.definition.Spec.Names.Plural)
	if name != "" {
		out += "/" + name
	}
	return out
}

// ask sends a request. One that gets no answer is answered with code 0.
func ask(ctx context.Context, method, to, contentType string, body []byte) answer {
	asked.Add(1)
	ctx, cancel := context.WithTimeout(ctx, suite.Patience())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return answer{0, []byte(err.Error())}
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := api.http.Do(request)
	if err != nil {
		return answer{0, []byte(err.Error())}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{0, []byte(err.Error())}
	}
	return answer{response.StatusCode, text}
}

const (
	jsonPatch  = "application/json-patch+json"
	mergePatch = "application/merge-patch+json"
	plainJSON  = "application/json"
)

// create an object of a kind.
func (k *kind) create(ctx context.Context, object map[string]any) answer {
	body, err := json.Marshal(object)
	if err != nil {
		return answer{0, []byte(err.Error())}
	}
	return ask(ctx, http.MethodPost, k.url(k.version, ""), plainJSON, body)
}

// write replaces the spec or the status of an object.
func (k *kind) write(ctx context.Context, version, name, part string, value any) answer {
	body, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/" + part, "value": value}})
	if err != nil {
		return answer{0, []byte(err.Error())}
	}
	to := k.url(version, name)
	if part == "status" {
		to += "/status"
	}
	return ask(ctx, http.MethodPatch, to, jsonPatch, body)
}

// label writes something else of an object.
func (k *kind) label(ctx context.Context, version, name string, n int) answer {
	return ask(ctx, http.MethodPatch, k.url(version, name), mergePatch, fmt.Appendf(nil, `{"metadata":{"labels":{"touched":"%d"}}}`, n))
}

// list finds an object in a list of its version.
func (k *kind) list(ctx context.Context, version, name string) (map[string]any, []byte, error) {
	a := ask(ctx, http.MethodGet, k.url(version, "")+"?fieldSelector="+url.QueryEscape("metadata.name="+name), "", nil)
	if !a.ok() {
		return nil, nil, fmt.Errorf("listing in %s: %d %s", version, a.code, a.status().Message)
	}
	var all struct{ Items []json.RawMessage }
	if err := json.Unmarshal(a.body, &all); err != nil || len(all.Items) != 1 {
		return nil, nil, fmt.Errorf("listing in %s: %d objects of this name, %w", version, len(all.Items), err)
	}
	out := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(all.Items[0]))
	decoder.UseNumber()
	return out, all.Items[0], decoder.Decode(&out)
}

func (k *kind) remove(ctx context.Context, name string) answer {
	return ask(ctx, http.MethodDelete, k.url(k.version, name), "", nil)
}
