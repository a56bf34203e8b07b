// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubescheduler lists the defaults of the kube-scheduler in each release of Kubernetes: its default plugins, and the feature gates
// that it reads and that are on by default. hack/filters/defaults generates the table from the source of these releases.
package kubescheduler

import (
	_ "embed" // the table
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
)

// NodeDeclaredFeatures is the scheduler plugin that checks the features that nodes declare.
const NodeDeclaredFeatures = "NodeDeclaredFeatures"

// Defaults contains the plugins and feature gates of one release, sorted by name.
type Defaults struct {
	// Version is the release, e.g. v1.37.2.
	Version        string
	Plugins, Gates []string

	minor uint
}

// HasPlugin reports whether the kube-scheduler enables a plugin by default.
func (d Defaults) HasPlugin(name string) bool { return slices.Contains(d.Plugins, name) }

// HasGate reports whether the kube-scheduler reads this feature gate and the gate is on by default.
func (d Defaults) HasGate(name string) bool { return slices.Contains(d.Gates, name) }

// Of returns the defaults for the version of an API server, e.g. v1.36.3-gke.100: the defaults of the first release for a version before
// the first release in the table, and the defaults of the last release for a later version or a version that cannot be read.
func Of(server string) Defaults {
	all := All()
	v, err := version.ParseGeneric(server)
	if err != nil || v.Major() != 1 {
		return all[len(all)-1]
	}
	for _, d := range all {
		if d.minor >= v.Minor() {
			return d
		}
	}
	return all[len(all)-1]
}

// spreadCountsAll is the first minor release of Kubernetes 1 for which [SpreadCountsAll] is true.
const spreadCountsAll = 38

// SpreadCountsAll reports whether the kube-scheduler of this version counts all pods of the namespace for a topology spread constraint with
// an empty label selector (kubernetes#141340). Earlier versions count no existing pod. server is the version of an API server;
// SpreadCountsAll returns false if the version cannot be read.
func SpreadCountsAll(server string) bool {
	v, err := version.ParseGeneric(server)
	return err == nil && v.Major() == 1 && v.Minor() >= spreadCountsAll
}

// All returns the releases in the table, oldest first. Callers must not change them.
var All = sync.OnceValue(func() []Defaults { return read(table) })

//go:embed defaults.txt
var table string

// read parses the table. One row names the releases. Each other row is for a plugin or a gate, with "on" for each release that has it.
func read(text string) (all []Defaults) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		if fields[0] == "release" {
			for _, v := range fields[1:] {
				all = append(all, Defaults{Version: v, minor: version.MustParseGeneric(v).Minor()})
			}
			continue
		}
		for i, mark := range fields[2:] {
			switch {
			case mark != "on":
			case fields[0] == "plugin":
				all[i].Plugins = append(all[i].Plugins, fields[1])
			case fields[0] == "gate":
				all[i].Gates = append(all[i].Gates, fields[1])
			}
		}
	}
	return all
}
