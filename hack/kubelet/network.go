// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// linkTries is the maximum number of attempts to create a node's link: the kernel removes the link of a crashed node with delay.
const linkTries = 50

// switchNetwork returns the network namespace of the switch.
func switchNetwork(pid int) (*os.File, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("finding the network of the nodes: %w", err)
	}
	return file, nil
}

// connect links this network namespace, which is the node's, to the switch, and adds routes to the other nodes and their pods.
func (n *node) connect() error {
	file, err := switchNetwork(n.switchPID)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := separateMounts(); err != nil { // until then, /proc shows the processes of the machine
		return err
	}
	there, err := netlink.NewHandleAt(netns.NsHandle(int(file.Fd())))
	if err != nil {
		return err
	}
	defer there.Close()
	if err := n.addLink(there, int(file.Fd())); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	own, err := netlink.LinkByName(interfaceOnNode)
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(n.address)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return netlink.LinkSetUp(lo) },
		func() error { return netlink.AddrAdd(own, address) },
		func() error { return netlink.LinkSetUp(own) },
		func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: own.Attrs().Index, Gw: net.ParseIP(n.gateway)})
		},
		func() error { return n.addRoutes(there, address.IP) },
		func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("connecting to the network of the nodes: %w", err)
		}
	}
	return nil
}

// addLink creates a pair of interfaces: one here, the other on the bridge, with the name of the node.
func (n *node) addLink(there *netlink.Handle, namespace int) error {
	for try := 1; ; try++ {
		if former, err := there.LinkByName(n.name); err == nil {
			_ = there.LinkDel(former)
		}
		attributes := netlink.NewLinkAttrs()
		attributes.Name = interfaceOnNode
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: n.name, PeerNamespace: netlink.NsFd(namespace)})
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EEXIST) || try == linkTries {
			return fmt.Errorf("linking to the switch: %w", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	bridge, err := there.LinkByName(bridgeName)
	if err != nil {
		return err
	}
	port, err := there.LinkByName(n.name)
	if err != nil {
		return err
	}
	if err := there.LinkSetMaster(port, bridge); err != nil {
		return err
	}
	return there.LinkSetUp(port)
}

// addRoutes adds a route from the switch to the pods of this node, and routes from this node to the pods of the others.
func (n *node) addRoutes(there *netlink.Handle, address net.IP) error {
	_, pods, err := net.ParseCIDR(n.pods)
	if err != nil {
		return err
	}
	if err := there.RouteReplace(&netlink.Route{Dst: pods, Gw: address}); err != nil {
		return err
	}
	for _, route := range strings.Fields(n.routes) {
		network, via, _ := strings.Cut(route, "=")
		_, to, err := net.ParseCIDR(network)
		if err != nil {
			return err
		}
		if err := netlink.RouteReplace(&netlink.Route{Dst: to, Gw: net.ParseIP(via)}); err != nil {
			return err
		}
	}
	return nil
}

// runLink takes a node's link down, which partitions the node from the network, or up again.
func runLink() error {
	pid, name, down := 0, "", false
	if err := parse(func(f *flag.FlagSet) {
		f.IntVar(&pid, "switch", 0, "process id of the switch")
		f.StringVar(&name, "node", "", "name of the node")
		f.BoolVar(&down, "down", false, "take the link down")
	}); err != nil {
		return err
	}
	file, err := switchNetwork(pid)
	if err != nil {
		return err
	}
	defer file.Close()
	there, err := netlink.NewHandleAt(netns.NsHandle(int(file.Fd())))
	if err != nil {
		return err
	}
	defer there.Close()
	port, err := there.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding the link of node %s: %w", name, err)
	}
	if down {
		return there.LinkSetDown(port)
	}
	return there.LinkSetUp(port)
}
