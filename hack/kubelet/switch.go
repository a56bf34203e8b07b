// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	bridgeName = "nodes"
	// interfaceOnNode is the node's end of its link; the other end is named after the node.
	interfaceOnNode = "eth0"
	dialTimeout     = 10 * time.Second
)

// gateway is the network between the nodes: a bridge in a network namespace without a route to the outside. Two paths lead across its
// border, both through this process, which has threads on either side: from nodes and pods to the API server, at two addresses; and from
// the API server and the tests to nodes and pods, by HTTP CONNECT at a socket, as kube-apiserver's egress selector requires.
type gateway struct {
	// address of the switch, with the nodes' network; service is the address of the Service kubernetes.
	address, service string
	// api is the API server's address on this machine.
	api string
	// socket serves HTTP CONNECT.
	socket string
	// namespace is the network namespace of the bridge.
	namespace int
}

func runSwitch() error {
	g := &gateway{}
	if err := parse(func(f *flag.FlagSet) {
		f.StringVar(&g.address, "address", "", "address in the network of the nodes, with the length of its prefix")
		f.StringVar(&g.service, "service", "", "address of the Service kubernetes")
		f.StringVar(&g.api, "api", "", "host and port of the API server on this machine")
		f.StringVar(&g.socket, "socket", "", "Unix socket to serve HTTP CONNECT at")
	}); err != nil {
		return err
	}
	listeners, err := g.enter()
	if err != nil {
		return err
	}
	for _, l := range listeners {
		go g.forward(l)
	}
	_ = os.Remove(g.socket)
	proxy, err := net.Listen("unix", g.socket)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(proxy, http.HandlerFunc(g.connect)) }() //nolint:gosec // its clients are those of this sandbox
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	return nil
}

// enter moves this thread, the first of the process, into a new network namespace, creates the bridge there, and listens there.
func (g *gateway) enter() ([]net.Listener, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	var err error
	if g.namespace, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	address, err := netlink.ParseAddr(g.address)
	if err != nil {
		return nil, err
	}
	service, err := netlink.ParseAddr(g.service + "/32")
	if err != nil {
		return nil, err
	}
	if err := addBridge(address, service); err != nil {
		return nil, err
	}
	var listeners []net.Listener
	for _, at := range []string{net.JoinHostPort(address.IP.String(), "6443"), net.JoinHostPort(g.service, "443")} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

func addBridge(addresses ...*netlink.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = bridgeName
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("adding a bridge: %w", err)
	}
	for _, a := range addresses {
		if err := netlink.AddrAdd(bridge, a); err != nil {
			return fmt.Errorf("adding address %s: %w", a, err)
		}
	}
	return netlink.LinkSetUp(bridge)
}

// forward forwards connections to the API server.
func (g *gateway) forward(l net.Listener) {
	for {
		caller, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			server, err := net.DialTimeout("tcp", g.api, dialTimeout)
			if err != nil {
				caller.Close()
				return
			}
			join(caller, caller, server)
		}()
	}
}

// connect serves HTTP CONNECT: it dials loopback addresses on this machine, and all others in the nodes' network.
func (g *gateway) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT is served", http.StatusMethodNotAllowed)
		return
	}
	server, err := g.dial(r.Context(), r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	caller, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		server.Close()
		return
	}
	if _, err := io.WriteString(caller, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		server.Close()
		caller.Close()
		return
	}
	join(caller, buffered.Reader, server)
}

func (g *gateway) dial(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	ip := net.ParseIP(host)
	switch {
	case host == "localhost" || ip != nil && ip.IsLoopback():
		return dialer.DialContext(ctx, "tcp", address)
	case ip == nil:
		return nil, fmt.Errorf("%s is not an address", host)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if err := unix.Setns(g.namespace, unix.CLONE_NEWNET); err != nil {
			done <- result{nil, err}
			return
		}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// join copies in both directions until both have ended.
func join(caller net.Conn, from io.Reader, server net.Conn) {
	defer caller.Close()
	defer server.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(server, from)
		closeWrite(server)
	}()
	_, _ = io.Copy(caller, bufio.NewReader(server))
	closeWrite(caller)
	<-ended
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
