// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/hack/git"
	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// pinned is the commit of a repository that Clone clones when PEERS_SRC is not set.
type pinned struct{ version, repository, commit string }

// short is the length of an abbreviated commit.
const short = 8

// sourcesOf is the folder for clones of the pinned commits; other commits have another folder.
func sourcesOf(all []peer) (string, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	var commits []string
	for _, p := range all {
		if p.from.repository != "" {
			commits = append(commits, p.from.commit[:short])
		}
	}
	return filepath.Join(cache, "peers", "sources-"+strings.Join(commits, "-")), nil
}

// Clone clones the pinned commits of the peers whose sources are not on this machine. It clones nothing if PEERS_SRC is set.
func Clone(ctx context.Context, report progress.Func, names ...string) error {
	if os.Getenv(SourcesVariable) != "" {
		return nil
	}
	dir, err := sourcesOf(all)
	if err != nil {
		return err
	}
	for _, p := range all {
		if !slices.Contains(names, p.name) || p.from.repository == "" {
			continue
		}
		if err := p.from.clone(ctx, filepath.Join(dir, p.sources), report); err != nil {
			return fmt.Errorf("cloning %s: %w; or set %s to a folder that has it: %s", p.from.repository, err, SourcesVariable, page)
		}
	}
	return nil
}

// clone clones only the pinned commit into a folder, unless the folder exists.
func (from pinned) clone(ctx context.Context, dir string, report progress.Func) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	report.Say("cloning %s at %s (%s)", from.repository, from.version, from.commit[:short])
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(dir), "cloning")
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"fetch", "--quiet", "--depth=1", from.repository, from.commit},
		{"-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD"},
	} {
		if _, failed := git.Run(ctx, unfinished, args...); failed != nil {
			return errors.Join(failed, os.RemoveAll(unfinished))
		}
	}
	return errors.Join(os.Rename(unfinished, dir), os.RemoveAll(unfinished))
}

// version is the version of a peer with which Trellis is tested.
func (p peer) version() string {
	if _, version, is := strings.Cut(p.module, "@"); is {
		return version
	}
	return p.from.version
}

// Versions lists the versions of the peers: the version with which Trellis is tested, the commit of the sources, and the commit from
// which the programs were built, if known.
func (s *Set) Versions(ctx context.Context) []string {
	var out []string
	for _, p := range s.peers {
		if p.module != "" {
			out = append(out, p.name+" "+p.version())
			continue
		}
		sources, programs := p.from.compared(s.sourceCommit(ctx, p)), p.from.compared(s.programCommit(p))
		out = append(out, fmt.Sprintf("%s %s: sources %s, programs %s", p.name, p.from.version, sources, programs))
	}
	return out
}

// compared describes a commit, and how it differs from the pinned one.
func (from pinned) compared(commit string) string {
	switch commit {
	case "":
		return "of an unknown commit"
	case from.commit:
		return "of commit " + commit[:short]
	}
	head, changed, _ := strings.Cut(commit, "+")
	if head == from.commit {
		return "of commit " + head[:short] + " with " + changed
	}
	return fmt.Sprintf("of commit %s, and %s is %s", head[:min(len(head), short)], from.version, from.commit[:short])
}

// sourceCommit is the checked out commit; "" if the folder of the sources is not the root of a clone.
func (s *Set) sourceCommit(ctx context.Context, p peer) string {
	dir := filepath.Join(s.sources, p.sources)
	if top, err := git.Run(ctx, dir, "rev-parse", "--show-toplevel"); err != nil || !sameDir(top, dir) {
		return ""
	}
	commit, _ := git.Run(ctx, dir, "rev-parse", "HEAD")
	return commit
}

func sameDir(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// programCommit is the commit that Go recorded in the programs; "" if a program has none or they differ.
func (s *Set) programCommit(p peer) string {
	commits := map[string]bool{}
	for _, program := range p.programs {
		commits[revision(filepath.Join(s.programs, program.name))] = true
	}
	for commit := range commits {
		if len(commits) == 1 {
			return commit
		}
	}
	return ""
}

func revision(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return ""
	}
	commit, changed := "", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = "+changes"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + changed
}
