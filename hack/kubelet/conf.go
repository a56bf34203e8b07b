// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"embed"
	"net"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed conf
var confFiles embed.FS

var conf = template.Must(template.ParseFS(confFiles, "conf/*"))

// parameters fill the templates of the configuration files.
type parameters struct {
	Address, Cgroup, DNS, Pods string
}

// writeConf writes the configuration of containerd, its network plugins and the kubelet.
func (n *node) writeConf() error {
	p := parameters{Address: n.ip(), Cgroup: "/" + n.cgroup, DNS: n.dns, Pods: n.pods}
	for _, t := range conf.Templates() {
		var out bytes.Buffer
		if err := t.Execute(&out, p); err != nil {
			return err
		}
		file := filepath.Join("/conf", t.Name())
		if filepath.Ext(file) == ".conflist" {
			file = filepath.Join("/conf/cni", t.Name())
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// ip returns the node's address.
func (n *node) ip() string {
	ip, _, err := net.ParseCIDR(n.address)
	if err != nil {
		return ""
	}
	return ip.String()
}
