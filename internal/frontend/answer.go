// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// maxAnswer is the size of an answer in bytes: some ten thousand instances.
const maxAnswer = 8 << 20

// Instance of a worker's program, as it registers itself.
type Instance struct {
	// Namespace of Dynamo, which has the generation in its name.
	Namespace string
	// ID as JSON.
	ID string
}

// Answer of a frontend.
type Answer struct {
	// Instances that it has discovered.
	Instances sets.Set[Instance]
	// Silent: it answers, but does not list instances.
	Silent bool
	// Failure is why there is no answer, in words; "" where there is one.
	Failure string
}

// entry is an instance as frontends list it, and as workers publish it.
type entry struct {
	Namespace string          `json:"namespace"`
	ID        json.RawMessage `json:"instance_id"`
}

func (e entry) instance() Instance { return Instance{e.Namespace, strings.Trim(string(e.ID), `"`)} }

func request(ctx context.Context, address string) Answer {
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return Answer{Failure: err.Error()}
	}
	response, err := pods.Do(asked)
	if err != nil {
		return Answer{Failure: "does not answer: " + reason(ctx, err)}
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Answer{Failure: "does not answer: " + reason(ctx, err)}
	case response.StatusCode == http.StatusNotFound:
		return Answer{Silent: true}
	case response.StatusCode != http.StatusOK:
		return Answer{Failure: fmt.Sprintf("answers %d", response.StatusCode)}
	case len(raw) > maxAnswer:
		return Answer{Failure: fmt.Sprintf("answers more than %d bytes", maxAnswer)}
	}
	return read(raw)
}

// reason is why a request failed, without its URL.
func reason(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return "time-out"
	}
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err.Error()
}

// read an answer. A program that answers something else, or a runtime before instances were listed, lists none.
func read(raw []byte) Answer {
	var body struct {
		Instances *[]entry `json:"instances"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || body.Instances == nil {
		return Answer{Silent: true}
	}
	out := Answer{Instances: sets.New[Instance]()}
	for _, e := range *body.Instances {
		out.Instances.Insert(e.instance())
	}
	return out
}

// Published are the instances in the data of a DynamoWorkerMetadata: those of models, or else of endpoints.
func Published(data []byte) []Instance {
	var body struct {
		ModelCards map[string]entry `json:"model_cards"`
		Endpoints  map[string]entry `json:"endpoints"`
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return nil
	}
	entries := body.ModelCards
	if len(entries) == 0 {
		entries = body.Endpoints
	}
	out := sets.New[Instance]()
	for _, e := range entries {
		if len(e.ID) > 0 {
			out.Insert(e.instance())
		}
	}
	return out.UnsortedList()
}
