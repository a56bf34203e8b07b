// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// Environment variables: the folders of the sources and of the programs, and the comma-separated names of the peers to test.
const (
	SourcesVariable  = "PEERS_SRC"
	ProgramsVariable = "PEERS_BIN"
	chosenVariable   = "PEERS"
)

// page is the documentation of how to get sources and programs.
const page = "docs/dev/development.md#the-real-kai-grove-and-leaderworkerset"

// Set is a set of peers and their location on this machine.
type Set struct {
	peers []peer
	// root is the root of this clone, which provides helm.
	root string
	// sources and programs are folders; this package also builds into programs.
	sources, programs string
}

// Names are the names of all peers in start order.
func Names() []string { return namesOf(all) }

func namesOf(peers []peer) []string {
	out := make([]string, 0, len(peers))
	for _, p := range peers {
		out = append(out, p.name)
	}
	return out
}

// Chosen are the names of the peers to test: those of the environment variable PEERS, or all peers that place or make pods.
func Chosen() []string {
	if only := os.Getenv(chosenVariable); only != "" {
		return strings.Split(only, ",")
	}
	return namesOf(makers)
}

// Needed are the names of the peers that a provider needs.
func Needed(provider sandbox.Provider) []string {
	switch provider {
	case sandbox.KAI, sandbox.LeaderWorkerSet:
		return []string{string(provider)}
	case sandbox.Grove:
		return []string{string(sandbox.KAI), string(sandbox.Grove)} // Grove's pods are KAI's
	default:
		return nil
	}
}

// Programs are the names of the programs of peers.
func Programs(names ...string) []string {
	var out []string
	for _, p := range all {
		if slices.Contains(names, p.name) {
			for _, program := range p.programs {
				out = append(out, program.name)
			}
		}
	}
	return out
}

// Find finds peers on this machine by the environment variables, for the clone at root. If something is missing, the error names the
// variables, the required content of their folders, and the page of the documentation.
func Find(root string, names ...string) (*Set, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	s := &Set{root: root, sources: os.Getenv(SourcesVariable), programs: os.Getenv(ProgramsVariable)}
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("peer %q: there are %s", name, strings.Join(Names(), ", "))
		}
	}
	for _, p := range all {
		if slices.Contains(names, p.name) {
			s.peers = append(s.peers, p)
		}
	}
	if err := s.useCloned(); err != nil {
		return nil, err
	}
	if err := s.missing(); err != nil {
		return nil, err
	}
	if s.programs == "" {
		cache, err := binaries.CacheDir()
		if err != nil {
			return nil, err
		}
		// one folder per combination of versions
		s.programs = filepath.Join(cache, "peers", strings.Join([]string{path.Base(lwsModule), path.Base(kueueModule),
			path.Base(karpenterModule)}, "-"))
	}
	for _, dir := range []*string{&s.sources, &s.programs} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// useCloned uses the sources that Clone cloned, unless the environment names sources.
func (s *Set) useCloned() error {
	dir, err := sourcesOf(all)
	if err != nil || s.sources != "" {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		s.sources = dir
	}
	return nil
}

// missing is an error that lists missing sources and programs.
func (s *Set) missing() error {
	var sources, programs, names []string
	for _, p := range s.peers {
		if p.module != "" {
			continue
		}
		names = append(names, p.name)
		sources = append(sources, p.sources)
		for _, program := range p.programs {
			programs = append(programs, program.name)
		}
	}
	var found []string
	for _, v := range []struct {
		name, dir string
		want      []string
	}{{SourcesVariable, s.sources, sources}, {ProgramsVariable, s.programs, programs}} {
		lacks := slices.DeleteFunc(slices.Clone(v.want), func(file string) bool {
			_, err := os.Stat(filepath.Join(v.dir, file))
			return v.dir != "" && err == nil
		})
		switch {
		case len(lacks) == 0:
		case v.dir == "":
			found = append(found, v.name+" is not set")
		default:
			found = append(found, fmt.Sprintf("%s=%s lacks %s", v.name, v.dir, strings.Join(lacks, ", ")))
		}
	}
	if len(found) == 0 {
		return nil
	}
	where := ""
	if s.sources != "" {
		where = " in " + s.sources
	}
	return fmt.Errorf(
		"%s: %s. %s is the folder of the sources (%s), %s that of the programs (%s), built from the sources%s as their own documentation "+
			"says: see %s",
		strings.Join(names, " and "), strings.Join(found, "; "),
		SourcesVariable, strings.Join(sources, ", "), ProgramsVariable, strings.Join(programs, ", "), where, page)
}

// Beside returns the peers as an option of a sandbox.
func (s *Set) Beside(report progress.Func) *sandbox.Peers {
	ports := map[string][]int{}
	for _, p := range s.peers {
		for _, program := range p.programs {
			ports[program.name] = program.ports
		}
	}
	return &sandbox.Peers{Ports: ports, Start: (&starter{Set: s, report: report}).start}
}

// release is the release name with which helm renders the chart.
func (p peer) release() string { return cmp.Or(p.chartRelease, strings.ToLower(p.name)) }
