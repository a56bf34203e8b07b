// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with only the plugins that a cluster needs, a third of the packages of the released one. The real nodes of the
// sandbox use it.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
)

// order is the order in which a query passes the plugins, as in the released CoreDNS.
var order = []string{"bind", "health", "ready", "log", "errors", "cache", "kubernetes"}

func main() {
	dnsserver.Directives = order
	coremain.Run()
}
