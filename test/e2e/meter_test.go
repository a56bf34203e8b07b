// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// meter follows an operator's own metrics over all its lives, served without TLS (--metrics-secure=false). Writes between its last look at a
// process and the end of that are not counted.
type meter struct {
	address string
	// life tells processes apart; last is what its counter of writes was.
	life, last float64
	// writes of all lives; those of events apart.
	writes float64
	now    usage
	most   usage
}

// usage of one process: bytes of memory in RAM and in Go's heap, goroutines.
type usage struct{ resident, heap, goroutines float64 }

// look reads the metrics; an operator that is down changes nothing.
func (m *meter) look(ctx context.Context) {
	text, err := m.read(ctx)
	if err != nil {
		return
	}
	started, writes := sandbox.Series(text, "process_start_time_seconds"), 0.0
	for _, verb := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		writes += sandbox.Series(text, "rest_client_requests_total", fmt.Sprintf("method=%q", verb))
	}
	if started != m.life {
		m.life, m.last = started, 0
	}
	m.writes += writes - m.last
	m.last = writes
	m.now = usage{sandbox.Series(text, "process_resident_memory_bytes"), sandbox.Series(text, "go_memstats_heap_inuse_bytes"), sandbox.Series(text, "go_goroutines")}
	m.most = usage{max(m.most.resident, m.now.resident), max(m.most.heap, m.now.heap), max(m.most.goroutines, m.now.goroutines)}
}

func (m *meter) read(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.address+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the metrics answer %s", response.Status)
	}
	return string(text), err
}

func (u usage) String() string {
	return fmt.Sprintf("RSS %3.0f MiB, heap %3.0f MiB, %4.0f goroutines", u.resident/(1<<20), u.heap/(1<<20), u.goroutines)
}
