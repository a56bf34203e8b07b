// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package frontend

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/trellis-k8s/trellis/test/testutil/patience"
	"github.com/trellis-k8s/trellis/test/testutil/ports"
)

const healthy = `{"status":"healthy","instances":[
  {"namespace":"team-llm-0a","component":"backend","endpoint":"generate","instance_id":9007199254740993,"transport":{"tcp":"10.0.0.1:1"}},
  {"namespace":"team-llm-0a","component":"backend","endpoint":"clear","instance_id":9007199254740993},
  {"namespace":"team-llm-0b","component":"prefill","endpoint":"generate","instance_id":"7f"}]}`

// answered asks until there is an answer.
func answered(t *testing.T, a *Asker, f Frontend) Answer {
	t.Helper()
	for {
		if answer, ok := a.Ask(f); ok {
			return answer
		}
		select {
		case <-t.Context().Done():
			t.Fatal("there is no answer")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAnswers(t *testing.T) {
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	cases := map[string]struct {
		handler http.HandlerFunc
		want    Answer
	}{
		"it lists instances": {says(200, healthy), Answer{Instances: sets.New(
			Instance{"team-llm-0a", "9007199254740993"}, Instance{"team-llm-0b", "7f"})}},
		"it has discovered none":        {says(200, `{"status":"healthy","instances":[]}`), Answer{Instances: sets.New[Instance]()}},
		"an earlier runtime":            {says(200, `{"status":"healthy","endpoints":["dyn://a.b.c"]}`), Answer{Silent: true}},
		"another program":               {says(200, "ok"), Answer{Silent: true}},
		"it has no such path":           {says(404, "no"), Answer{Silent: true}},
		"it is not ready":               {says(503, healthy), Answer{Failure: "answers 503"}},
		"it sends elsewhere":            {http.RedirectHandler("http://192.0.2.1/", http.StatusFound).ServeHTTP, Answer{Failure: "answers 302"}},
		"it answers too much":           {says(200, strings.Repeat(" ", maxAnswer+1)), Answer{Failure: "answers more than 8388608 bytes"}},
		"it does not answer in time":    {func(http.ResponseWriter, *http.Request) { <-forever }, Answer{Failure: "does not answer: time-out"}},
		"it stops in the middle of one": {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); <-forever }, Answer{Failure: "does not answer: time-out"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			t.Cleanup(server.CloseClientConnections)
			a := &Asker{Timeout: patience.Limit()}
			if strings.Contains(c.want.Failure, "time-out") {
				a.Timeout = 50 * time.Millisecond
			}
			if diff := cmp.Diff(c.want, answered(t, a, Frontend{"f", server.URL + "/health"})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	port, err := ports.Free(nil)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	got := answered(t, &Asker{}, Frontend{"f", "http://" + address + "/health"}).Failure
	if !strings.HasPrefix(got, "does not answer: dial tcp "+address) || !strings.Contains(got, "refused") {
		t.Errorf("got %q", got)
	}
}

// TestAsk: a caller does not wait, a frontend is asked again after a while, an old answer does not count, and what no caller wants to know is forgotten.
func TestAsk(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"instances":[{"namespace":"n","instance_id":%d}]}`, requests.Add(1))
	}))
	t.Cleanup(server.Close)
	var clock atomic.Int64
	a := &Asker{Timeout: patience.Limit(), Now: func() time.Time { return time.Unix(clock.Load(), 0) }}
	clock.Store(1000)
	f := Frontend{"f", server.URL}
	for range 10 {
		if got := answered(t, a, f); !got.Instances.Has(Instance{"n", "1"}) {
			t.Fatalf("got %v", got)
		}
	}
	clock.Add(int64(Every / time.Second))
	if got, ok := a.Ask(f); !ok || !got.Instances.Has(Instance{"n", "1"}) {
		t.Errorf("the last answer is %v, %v", got, ok)
	}
	for !answered(t, a, f).Instances.Has(Instance{"n", "2"}) {
		<-time.After(time.Millisecond)
	}
	clock.Add(int64(stale / time.Second))
	if got, ok := a.Ask(f); ok {
		t.Errorf("an old answer counts: %v", got)
	}
	if got := answered(t, a, f); !got.Instances.Has(Instance{"n", "3"}) {
		t.Errorf("got %v", got)
	}
	clock.Add(int64(forgotten/time.Second) + 1)
	answered(t, a, Frontend{"other", server.URL})
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) != 1 || a.running != 0 {
		t.Errorf("%d frontends are known, %d are asked", len(a.known), a.running)
	}
}

// TestManyFrontends: no more than some are asked at the same time, and the others after them.
func TestManyFrontends(t *testing.T) {
	var now, most atomic.Int32
	gate := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		<-gate
		now.Add(-1)
		_, _ = w.Write([]byte(healthy))
	}))
	t.Cleanup(server.Close)
	a := &Asker{Timeout: patience.Limit()}
	var all []Frontend
	for i := range 3 * atOnce {
		all = append(all, Frontend{types.UID(fmt.Sprint(i)), server.URL})
		if _, ok := a.Ask(all[i]); ok {
			t.Fatal("there is an answer already")
		}
	}
	a.mu.Lock()
	running := a.running
	a.mu.Unlock()
	close(gate)
	for _, f := range all {
		answered(t, a, f)
	}
	if running != atOnce || most.Load() > atOnce {
		t.Errorf("%d were begun, %d were asked at the same time", running, most.Load())
	}
}

func TestPublished(t *testing.T) {
	cases := map[string]struct {
		data string
		want []Instance
	}{
		"models":             {`{"model_cards":{"a":{"namespace":"n","instance_id":42,"card_json":{}}},"endpoints":{"b":{"namespace":"n","instance_id":43}}}`, []Instance{{"n", "42"}}},
		"no model":           {`{"model_cards":null,"endpoints":{"b":{"namespace":"n","instance_id":9007199254740993},"c":{"namespace":"n","instance_id":9007199254740993}}}`, []Instance{{"n", "9007199254740993"}}},
		"nothing":            {`{}`, nil},
		"another form":       {`{"model_cards":["a"]}`, nil},
		"without an id":      {`{"endpoints":{"b":{"namespace":"n"}}}`, nil},
		"ids that are texts": {`{"model_cards":{"a":{"namespace":"n","instance_id":"7f"}}}`, []Instance{{"n", "7f"}}},
	}
	for name, c := range cases {
		got := Published([]byte(c.data))
		slices.SortFunc(got, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
		if diff := cmp.Diff(c.want, got, cmp.Transformer("none", func(in []Instance) []Instance { return append([]Instance{}, in...) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
