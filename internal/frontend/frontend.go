// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package frontend

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// Every is the time after which a frontend is asked again.
	Every = 5 * time.Second
	// Again is when a caller that waits for another answer looks for it.
	Again = 2 * time.Second
	// timeout of one request.
	timeout = 3 * time.Second
	// stale answers do not count any more.
	stale = 4 * Every
	// atOnce is how many frontends are asked at the same time.
	atOnce = 16
	// forgotten are frontends of which no caller has wanted to know anything for so long.
	forgotten = time.Minute
)

// Frontend is a pod that serves the API of a deployment.
type Frontend struct {
	UID types.UID
	// URL of its /health.
	URL string
}

// Asker asks frontends. Its zero value is ready for use.
type Asker struct {
	// Now is the clock; nil: that of the machine.
	Now func() time.Time
	// Timeout of one request; 0: 3 seconds.
	Timeout time.Duration

	mu      sync.Mutex
	known   map[Frontend]*known
	running int
}

// known is what is known of one frontend.
type known struct {
	answer       Answer
	asked, wants time.Time
	asking       bool
}

// Ask returns the last answer of a frontend, and has it asked again when that is some seconds old. There is no answer before the first one.
func (a *Asker) Ask(f Frontend) (Answer, bool) {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[f]
	if k == nil {
		k = a.remember(f, now)
	}
	k.wants = now
	if !k.asking && a.running < atOnce && (k.asked.IsZero() || now.Sub(k.asked) >= Every) {
		k.asking = true
		a.running++
		go a.ask(f, k)
	}
	return k.answer, !k.asked.IsZero() && now.Sub(k.asked) < stale
}

// remember a frontend, and forget those that no caller wants to know of.
func (a *Asker) remember(f Frontend, now time.Time) *known {
	if a.known == nil {
		a.known = map[Frontend]*known{}
	}
	for other, k := range a.known {
		if !k.asking && now.Sub(k.wants) > forgotten {
			delete(a.known, other)
		}
	}
	k := &known{}
	a.known[f] = k
	return k
}

// ask sends the request. No lock is held meanwhile.
func (a *Asker) ask(f Frontend, k *known) {
	limit := timeout
	if a.Timeout > 0 {
		limit = a.Timeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	answer := request(ctx, f.URL)
	a.mu.Lock()
	defer a.mu.Unlock()
	k.answer, k.asked, k.asking = answer, a.now(), false
	a.running--
}

func (a *Asker) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// pods sends requests to pods only: by no proxy, and not to where a pod sends it on.
var pods = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
