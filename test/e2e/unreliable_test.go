// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// unreliable makes the watches of a client late, repetitive, out of order, short-lived and, if so asked, incomplete. Of one object no change
// overtakes another, and what was not passed on when a watch was cut is sent again by the next one, as it is by any API server. A watch that left
// an event out continues for a while, and then says that its resource version is too old, so that the client lists again.
type unreliable struct {
	mu   sync.Mutex
	rand *rand.Rand
	// omits: events are left out, too.
	omits bool
	// longest is for how long a watch is held back at most, each time; 0 is longestHold.
	longest time.Duration
	// held, doubled, swapped, omitted and cut count what was done to events, and to watches.
	held, doubled, swapped, omitted, cut int
}

// longestHold is the default of unreliable.longest.
const longestHold = 3 * time.Second

// disturb is a config whose watches are unreliable. They are read as JSON, but for metadata alone.
func (u *unreliable) disturb(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.ContentType, out.AcceptContentTypes = "application/json", "application/json"
	out.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil && response.StatusCode == http.StatusOK && request.URL.Query().Get("watch") != "" {
				response.Body = u.pass(response.Body, strings.HasPrefix(response.Header.Get("Content-Type"), runtime.ContentTypeProtobuf))
			}
			return response, err
		})
	})
	return out
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// pass reads events from a watch and passes them on.
func (u *unreliable) pass(from io.ReadCloser, protobuf bool) io.ReadCloser {
	reader, writer := io.Pipe()
	lines, ended := make(chan []byte), make(chan error, 1)
	closed := make(chan struct{})
	go func() {
		for in := bufio.NewReader(from); ; {
			line, err := frame(in, protobuf)
			if err != nil {
				ended <- err
				return
			}
			select {
			case lines <- line:
			case <-closed:
				return
			}
		}
	}()
	go func() {
		err := (&disturbedWatch{unreliable: u, to: writer, protobuf: protobuf}).pass(lines, ended)
		close(closed)
		from.Close()
		writer.CloseWithError(err)
	}()
	return &passed{reader, from}
}

// frame reads one event, with what separates it from the next: a line of JSON, or a length and so many bytes.
func frame(in *bufio.Reader, protobuf bool) ([]byte, error) {
	if !protobuf {
		return in.ReadBytes('\n')
	}
	length := make([]byte, 4)
	if _, err := io.ReadFull(in, length); err != nil {
		return nil, err
	}
	out := make([]byte, 4+binary.BigEndian.Uint32(length))
	copy(out, length)
	_, err := io.ReadFull(in, out[4:])
	return out, err
}

// disturbedWatch is one watch of a client.
type disturbedWatch struct {
	*unreliable
	to       io.Writer
	protobuf bool
	// waiting is an event that another one is to overtake.
	waiting []byte
	// expires is when a watch that left an event out reports it.
	expires <-chan time.Time
}

// expired ends a watch: a client that reads it lists again.
const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,` +
	`"message":"too old resource version"}}` + "\n"

// pass passes events on until the watch ends. An event that another one is to overtake waits for that no longer than for the longest hold. However a
// watch ends that left an event out, its client is sent expired.
func (w *disturbedWatch) pass(lines <-chan []byte, ended <-chan error) (err error) {
	defer func() {
		if w.expires != nil {
			_ = w.write([]byte(expired)) // fails when the client has closed the watch
		}
	}()
	for err == nil {
		late := (<-chan time.Time)(nil)
		if w.waiting != nil {
			late = time.After(cmp.Or(w.longest, longestHold))
		}
		select {
		case line := <-lines:
			err = w.event(line)
		case <-late:
			err = w.write(w.waiting)
			w.waiting = nil
		case <-w.expires:
			return io.EOF
		case err = <-ended:
		}
	}
	return err
}

func (w *disturbedWatch) write(events []byte) error {
	_, err := w.to.Write(events)
	return err
}

// passed is what a client reads; closing it ends the watch itself, too.
type passed struct {
	*io.PipeReader
	from io.Closer
}

func (p *passed) Close() error {
	return errors.Join(p.from.Close(), p.PipeReader.Close())
}

var errCut = io.ErrUnexpectedEOF

// fault is what happens to an event.
type fault int

const (
	none fault = iota
	cut
	omit
	hold
	double
	swap
)

// next draws what happens to an event, and for how long.
func (w *disturbedWatch) next() (fault, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	drawn, duration := w.rand.IntN(200), time.Duration(w.rand.Int64N(int64(cmp.Or(w.longest, longestHold))))
	switch {
	case drawn == 0:
		w.cut++
		return cut, 0
	case drawn == 1 && w.omits && !w.protobuf && w.expires == nil:
		w.omitted++
		return omit, duration
	case drawn < 7:
		w.held++
		return hold, duration
	case drawn < 41:
		w.doubled++
		return double, 0
	case drawn < 81 && w.waiting == nil:
		w.swapped++
		return swap, 0
	}
	return none, 0
}

// event passes one event on, and the one that waits.
func (w *disturbedWatch) event(line []byte) error {
	if w.waiting != nil && sameObject(line, w.waiting) {
		if err := w.write(w.waiting); err != nil {
			return err
		}
		w.waiting = nil
	}
	fault, duration := w.next()
	switch fault {
	case cut:
		return errCut
	case omit:
		w.expires = time.After(duration)
		return nil
	case hold:
		<-time.After(duration)
	case double:
		line = bytes.Repeat(line, 2)
	case swap:
		w.waiting = line
		return nil
	}
	err := w.write(append(line, w.waiting...))
	w.waiting = nil
	return err
}

// sameObject: both events are of one object, also if it was deleted and created again in between, or it is not known of which they are.
func sameObject(a, b []byte) bool {
	type name struct{ Namespace, Name string }
	var one, other struct {
		Object struct{ Metadata name }
	}
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &other) != nil {
		return true
	}
	return one.Object.Metadata.Name == "" || other.Object.Metadata.Name == "" || one.Object.Metadata == other.Object.Metadata
}
