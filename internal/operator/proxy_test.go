// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// proxy carries bytes between the API server and the operator. Those of answers may take long, or be held. Everything of a connection arrives in the
// end, or the connection ends.
type proxy struct {
	net.Listener
	target  string
	latency atomic.Int64
	mu      sync.Mutex
	// open is closed unless answers are held.
	open chan struct{}
	// calls are the connections that exist.
	calls atomic.Int64
}

// newProxy carries what comes to its address to a target.
func newProxy(target string) *proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{Listener: listener, target: target, open: make(chan struct{})}
	close(p.open)
	DeferCleanup(func() { _ = p.Close() })
	go func() {
		for {
			caller, err := p.Accept()
			if err != nil {
				return
			}
			go p.connect(caller)
		}
	}()
	return p
}

// port is that of its address.
func (p *proxy) port() int32 { return int32(p.Addr().(*net.TCPAddr).Port) }

// slow has answers take longer from now on.
func (p *proxy) slow(latency time.Duration) { p.latency.Store(int64(latency)) }

// hold has no byte of an answer arrive until mend.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// mend lets everything arrive at once, what was held too.
func (p *proxy) mend() {
	p.slow(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

func (p *proxy) opened() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

func (p *proxy) connect(caller net.Conn) {
	p.calls.Add(1)
	defer p.calls.Add(-1)
	defer func() { _ = caller.Close() }()
	operator, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(operator, caller)
		_ = operator.Close()
	}()
	p.answers(caller, operator, gone)
}

// piece of an answer, and when it is to arrive.
type piece struct {
	bytes []byte
	at    time.Time
}

// answers returns when the operator has said everything, or the caller is gone.
func (p *proxy) answers(caller io.Writer, operator net.Conn, gone <-chan struct{}) {
	parts := make(chan piece, 1024)
	go func() {
		defer close(parts)
		for {
			buffer := make([]byte, 32<<10)
			n, err := operator.Read(buffer)
			if n > 0 {
				select {
				case parts <- piece{buffer[:n], time.Now().Add(time.Duration(p.latency.Load()))}:
				case <-gone:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for part := range parts {
		select {
		case <-time.After(time.Until(part.at)):
		case <-gone:
			return
		}
		select {
		case <-p.opened():
		case <-gone:
			return
		}
		if _, err := caller.Write(part.bytes); err != nil {
			return
		}
	}
}
