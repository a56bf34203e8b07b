// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
)

// inFlightServer serves a hook within bounds of its own.
func inFlightServer(t *testing.T, hook http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(newInFlight().bound(hook))
	t.Cleanup(server.Close)
	return server
}

// post sends a body, again and again while it is turned away, as the API server does.
func post(t *testing.T, url, body string) answered {
	t.Helper()
	for {
		if got := postOnce(t, url, body); got.code != http.StatusTooManyRequests {
			return got
		}
	}
}

// answered is what a request was answered with; of none the code is 0.
type answered struct {
	code       int
	retryAfter string
	text       string
}

func postOnce(t *testing.T, url, body string) answered {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body)) //nolint:noctx // ends with the server
	if err != nil {
		t.Error(err)
		return answered{}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return answered{response.StatusCode, response.Header.Get("Retry-After"), string(text)}
}

// However many requests come, the bodies of those that are worked on are within the bound, and all are answered.
func TestWorkInFlightIsBounded(t *testing.T) {
	for _, test := range []struct{ size, bound int }{{10, smallBytes / leastWeight}, {smallRequest, smallBytes / leastWeight}, {1 << 20, 4}, {6 << 20, 1}} {
		t.Run(fmt.Sprint(test.size), func(t *testing.T) {
			var now, most atomic.Int64
			server := inFlightServer(t, func(w http.ResponseWriter, r *http.Request) {
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				<-time.After(20 * time.Millisecond) // for others to come, if they can
				body, _ := io.ReadAll(r.Body)
				_, _ = fmt.Fprint(w, len(body))
			})
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					got := post(t, server.URL+"?timeout=30s", strings.Repeat("x", test.size))
					if got.code != http.StatusOK || got.text != fmt.Sprint(test.size) {
						t.Errorf("%d: %.200s", got.code, got.text)
					}
				})
			}
			all.Wait()
			if most.Load() > int64(test.bound) {
				t.Errorf("%d requests of %d bytes at once, %d are allowed", most.Load(), test.size, test.bound)
			}
		})
	}
}

// A request whose caller would not wait any longer is told to come again.
func TestTurnedAway(t *testing.T) {
	working, end := make(chan struct{}, 1), make(chan struct{})
	server := inFlightServer(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("timeout") == "30s" {
			working <- struct{}{}
			<-end
		}
	})
	large := strings.Repeat("x", largeBytes)
	var all sync.WaitGroup
	all.Go(func() { post(t, server.URL+"?timeout=30s", large) })
	<-working
	if got := postOnce(t, server.URL+"/path?timeout=10ms", large); got.code != http.StatusTooManyRequests || got.retryAfter != "1" || !strings.Contains(got.text, "/path") {
		t.Errorf("%+v", got)
	}
	if got := post(t, server.URL+"?timeout=10s", "small"); got.code != http.StatusOK {
		t.Errorf("a small request waits for a large one: %+v", got)
	}
	close(end)
	all.Wait()
}

// Callers that send half a body, small or large, do not hold up others.
func TestSlowCallersBlockNoOne(t *testing.T) {
	server := inFlightServer(t, func(http.ResponseWriter, *http.Request) {})
	for _, length := range []int{smallRequest, smallRequest + 1} {
		for range 20 {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nhalf", length); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := post(t, server.URL, "x"); got.code != http.StatusOK {
		t.Errorf("%+v", got)
	}
}

// reviewOf is the request to convert a deployment of v1beta1 with a payload and a number of environment variables.
func reviewOf(t *testing.T, payload string, variables int) string {
	t.Helper()
	env := make([]any, variables)
	for i := range env {
		env[i] = map[string]any{"name": fmt.Sprintf("VARIABLE_%d", i), "value": strings.Repeat("v", 50)}
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": map[string]any{
		"uid": "u", "desiredAPIVersion": "nvidia.com/v1alpha1", "objects": []any{map[string]any{
			"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
			"metadata": map[string]any{"name": "g", "annotations": map[string]any{nvidiav1alpha1.AnnotationSpecMemory: payload}},
			"spec":     map[string]any{"components": []any{map[string]any{"name": "W", "podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "env": env}}}}}}},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// payloadOf is a compressed payload that unfolds to a size in bytes of empty lists.
func payloadOf(size int) string {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = fmt.Fprintf(writer, `{"junk":[%s[]]}`, strings.Repeat("[],", size/3))
	_ = writer.Close()
	return "gzip+base64:" + base64.StdEncoding.EncodeToString(out.Bytes())
}

// Many conversions at once, of hostile objects and of ordinary large ones, take a bounded part of memory, and each is answered.
func TestConversionsTakeBoundedMemory(t *testing.T) {
	const limit = 120 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	server := inFlightServer(t, convert.Handler().ServeHTTP)
	for name, body := range map[string]string{
		"6 KB that unfold to 4 MiB":         reviewOf(t, payloadOf(4<<20), 0),
		"a payload as large as is read":     reviewOf(t, payloadOf(180_000), 0),
		"ordinary objects of a megabyte":    reviewOf(t, "", 12_000),
		"large ones with a hostile payload": reviewOf(t, payloadOf(4<<20), 12_000),
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			peak, done := make(chan uint64), make(chan struct{})
			go func() { peak <- highest(done) }()
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					got := post(t, server.URL+"?timeout=30s", body)
					if ends := got.text[:min(len(got.text), 500)] + got.text[max(0, len(got.text)-500):]; got.code != http.StatusOK || !strings.Contains(ends, "Success") {
						t.Errorf("%d: %.300s", got.code, got.text)
					}
				})
			}
			all.Wait()
			close(done)
			got := <-peak
			t.Logf("peak of the heap: %d MiB", got>>20)
			if got > limit+limit/10 {
				t.Errorf("the heap took %d MiB", got>>20)
			}
		})
	}
}

// highest is what the objects on the heap take at most until done is closed, in bytes.
func highest(done <-chan struct{}) uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var most uint64
	for {
		metrics.Read(sample)
		most = max(most, sample[0].Value.Uint64())
		select {
		case <-done:
			return most
		case <-tick.C:
		}
	}
}
