// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var noon = time.Date(2025, 1, 1, 12, 0, 0, 0, time.UTC)

func TestExpired(t *testing.T) {
	const lease = LeaseDuration
	at := func(monotonic, wall time.Duration) instant { return instant{monotonic, noon.Add(wall)} }
	for name, tc := range map[string]struct {
		now  instant
		want bool
	}{
		"just renewed":                                          {at(0, 0), false},
		"a moment before its end":                               {at(lease-1, lease-1), false},
		"at its end":                                            {at(lease, lease), true},
		"after the process was stopped":                         {at(time.Hour, time.Hour), true},
		"after the machine was suspended":                       {at(time.Second, time.Hour), true},
		"after the wall clock was set back":                     {at(time.Second, -time.Hour), false},
		"at its end, and the wall clock was set back meanwhile": {at(lease, -time.Hour), true},
	} {
		if got := expired(at(0, 0), tc.now, lease); got != tc.want {
			t.Errorf("%s: expired is %v", name, got)
		}
	}
}

// world is a server, and a client whose writes pass a fence.
type world struct {
	*testing.T
	fence  *Fence
	clock  *clocktesting.FakePassiveClock
	client *http.Client
	url    string
	got    chan string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(noon)
	w := &world{T: t, clock: clock, fence: NewFence(LeaseDuration, clock), got: make(chan string, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { w.got <- r.Method + " " + r.URL.Path }))
	t.Cleanup(server.Close)
	w.url, w.client = server.URL, server.Client()
	w.client.Transport = w.fence.Wrap(w.client.Transport)
	return w
}

func (w *world) renew()                { w.fence.renew(w.fence.now()) }
func (w *world) skip(by time.Duration) { w.clock.SetTime(w.clock.Now().Add(by)) }

// body reports whether it is closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

// send returns what a request ends with.
func (w *world) send(ctx context.Context, method, path string) error {
	sent := &body{Reader: strings.NewReader("{}")}
	request, err := http.NewRequestWithContext(ctx, method, w.url+path, sent)
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err == nil {
		_ = response.Body.Close()
	} else if !sent.closed {
		w.Errorf("%s %s: the body of a refused request is open", method, path)
	}
	return err
}

// try is send for a request that may wait: then it ends with errWaits.
func (w *world) try(method, path string) error {
	ctx, cancel := context.WithCancelCause(w.Context())
	defer cancel(nil)
	if changed, _ := w.fence.check(); changed != nil {
		cancel(errWaits)
	}
	return w.send(ctx, method, path)
}

var errWaits = errors.New("it waits")

const pods = "/api/v1/namespaces/a/pods"

func TestWritesPassTheFence(t *testing.T) {
	const lost = `leader election lost: the lease is held by "another"`
	for name, tc := range map[string]struct {
		prepare func(*world)
		want    string
	}{
		"before the lease is acquired": {func(*world) {}, errNotElected.Error()},
		"while it is valid":            {(*world).renew, ""},
		"a moment before it expires":   {func(w *world) { w.renew(); w.skip(LeaseDuration - 1) }, ""},
		"when it has expired":          {func(w *world) { w.renew(); w.skip(LeaseDuration) }, errWaits.Error()},
		"when it is renewed again":     {func(w *world) { w.renew(); w.skip(time.Hour); w.renew() }, ""},
		"when the answer to a renewal came late": {func(w *world) {
			sent := w.fence.now()
			w.skip(LeaseDuration)
			w.fence.renew(sent)
		}, errWaits.Error()},
		"when it is released":                              {func(w *world) { w.renew(); w.fence.release() }, errReleased.Error()},
		"when another replica holds it":                    {func(w *world) { w.renew(); w.fence.replace("another") }, lost},
		"when it is renewed after another replica held it": {func(w *world) { w.renew(); w.fence.replace("another"); w.renew() }, lost},
		"when another replica held it before":              {func(w *world) { w.fence.replace("another"); w.renew() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.prepare(w)
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				err := w.try(method, pods)
				switch {
				case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("%s ends with %v, want %q", method, err, tc.want)
				case tc.want == "":
					if got := <-w.got; got != method+" "+pods {
						t.Errorf("the server got %s instead of %s", got, method)
					}
				case len(w.got) > 0:
					t.Errorf("the server got %s", <-w.got)
				}
			}
		})
	}
}

func TestOthersDoNotPassTheFence(t *testing.T) {
	w := newWorld(t)
	for _, request := range [][2]string{
		{http.MethodGet, pods}, {http.MethodHead, pods},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews"}, {http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews"},
	} {
		if err := w.try(request[0], request[1]); err != nil {
			t.Errorf("%v ends with %v", request, err)
		}
	}
}

// A write that waits is sent when the lease is renewed, and refused when it is lost.
func TestWritesWaitAtAnExpiredFence(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(*world)
		sent int
	}{
		"renewed": {(*world).renew, 1},
		"lost":    {func(w *world) { w.fence.replace("another") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.renew()
			w.skip(LeaseDuration)
			ended := make(chan error)
			go func() { ended <- w.send(t.Context(), http.MethodPost, pods) }()
			changed, _ := w.fence.check()
			w.fence.renew(instant{wall: noon}) // wakes the write, and the lease is still expired
			<-changed
			if len(w.got) > 0 {
				t.Error("the write is sent with an expired lease")
			}
			tc.end(w)
			if err := <-ended; (err == nil) != (tc.sent > 0) || len(w.got) != tc.sent {
				t.Errorf("the write ends with %v, and the server got %d", err, len(w.got))
			}
			select {
			case <-w.fence.Lost():
				if tc.sent > 0 {
					t.Error("the lease is lost")
				}
			default:
				if tc.sent == 0 {
					t.Error("the lease is not lost")
				}
			}
		})
	}
}
