// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"mvdan.cc/sh/v3/syntax"
)

// shells are the programs that can run a script that is given as an argument.
var shells = []string{"sh", "bash", "dash", "ash", "zsh"}

// mentions are the commands that treat their words only as text, and start no program.
var mentions = []string{"echo", "printf", "logger", "grep", "pgrep", "pkill", "killall", "test", "[", ":", "true", "false"}

// shellScript returns the script in "sh -c script"; nil for none. The words may be divided between command and args in any way, and may
// follow an entrypoint.
func shellScript(c *corev1.Container) *string {
	all := make([]*string, 0, len(c.Command)+len(c.Args))
	for _, list := range [][]string{c.Command, c.Args} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	words := make([]string, len(all))
	for i, word := range all {
		words[i] = *word
	}
	if at := scriptAt(words); at >= 0 {
		return all[at]
	}
	return nil
}

// scriptAt returns the index of the script among the words of "sh -c script"; -1 if no shell is started with a script.
func scriptAt(words []string) int {
	start := slices.IndexFunc(words, func(w string) bool { return slices.Contains(shells, path.Base(w)) })
	if start < 0 {
		return -1
	}
	for i := start + 1; i < len(words)-1; i++ {
		option := words[i]
		switch {
		case strings.HasPrefix(option, "--"): // --login for example
		case !strings.HasPrefix(option, "-"):
			return -1 // a script file, or a program to run
		case strings.Contains(option, "c"):
			return i + 1
		case strings.HasSuffix(option, "o"): // -o pipefail
			i++
		}
	}
	return -1
}

// scan returns the programs that a shell script starts; none if the text is not a valid script.
func scan(script string) []program {
	s := &scanner{}
	s.read(script, 0)
	slices.SortStableFunc(s.found, func(a, b program) int { return a.end - b.end })
	return s.found
}

type scanner struct{ found []program }

// maxDepth is the maximum nesting depth of scripts inside scripts.
const maxDepth = 4

// read adds the programs that a part of the script starts. base is the offset of this part in the whole script.
func (s *scanner) read(script string, base int, outer ...string) {
	// Kubernetes replaces $$ with $, so the shell sees $$(cmd) as $(cmd) and $$NAME as $NAME.
	script = strings.ReplaceAll(script, "$$", "X$")
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(script), "")
	if err != nil || len(outer) > maxDepth {
		return
	}
	r := &reader{scanner: s, text: script, base: base, outer: append(slices.Clone(outer), withoutComments(script, file))}
	r.expanded = expandedIn(file)
	before := len(s.found)
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			r.command(n.Args)
		case *syntax.Assign:
			r.assign(n)
		}
		return true
	})
	if len(s.found) > before {
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool { // a script that is written to a file or passed to a shell
		if n, ok := n.(*syntax.Redirect); ok && n.Hdoc != nil {
			r.inner(n.Hdoc.Pos(), n.Hdoc.End())
		}
		return true
	})
}

// withoutComments replaces the comments in a script by blanks.
func withoutComments(script string, file *syntax.File) string {
	out := []byte(script)
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.Comment); ok {
			for i := c.Pos().Offset(); i < c.End().Offset() && int(i) < len(out); i++ {
				out[i] = ' '
			}
		}
		return true
	})
	return string(out)
}

// expandedIn returns the names of the variables that commands use, except for commands that only print them.
func expandedIn(file *syntax.File) map[string]bool {
	names := map[string]bool{}
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || mentioned(call.Args) {
			return true
		}
		for _, arg := range call.Args {
			for _, name := range expansions(arg) {
				names[name] = true
			}
		}
		return true
	})
	return names
}

// mentioned reports whether a command treats its words only as text.
func mentioned(args []*syntax.Word) bool {
	return len(args) > 0 && slices.Contains(mentions, path.Base(plain(args[0]).text))
}

// reader reads one script.
type reader struct {
	*scanner
	text     string
	base     int
	outer    []string
	expanded map[string]bool
}

func (r *reader) command(args []*syntax.Word) {
	if mentioned(args) {
		return
	}
	words := r.words(args)
	if at := scriptAt(texts(words)); at >= 0 {
		r.quoted(args[at])
		return
	}
	if len(words) > 0 && words[0].text == "eval" {
		for _, arg := range args[1:] {
			r.quoted(arg)
		}
	}
	r.found = append(r.found, programsIn(words)...)
}

// assign reads a command that the script stores in a variable and expands later.
func (r *reader) assign(a *syntax.Assign) {
	if a.Name == nil || !r.expanded[a.Name.Value] {
		return
	}
	if a.Array != nil {
		args := make([]*syntax.Word, 0, len(a.Array.Elems))
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				args = append(args, e.Value)
			}
		}
		r.command(args)
		return
	}
	if a.Value != nil {
		r.quoted(a.Value)
	}
}

// quoted reads a quoted word as a script.
func (r *reader) quoted(w *syntax.Word) {
	if len(w.Parts) != 1 {
		return
	}
	switch q := w.Parts[0].(type) {
	case *syntax.SglQuoted:
		if !q.Dollar {
			r.span(int(q.Left.Offset())+1, int(q.Right.Offset()))
		}
	case *syntax.DblQuoted:
		if !q.Dollar {
			r.span(int(q.Left.Offset())+1, int(q.Right.Offset()))
		}
	}
}

func (r *reader) inner(from, to syntax.Pos) { r.span(int(from.Offset()), int(to.Offset())) }

func (r *reader) span(from, to int) {
	if from < to && to <= len(r.text) {
		r.read(r.text[from:to], r.base+from, r.outer...)
	}
}

func (r *reader) words(args []*syntax.Word) []word {
	out := make([]word, len(args))
	for i, arg := range args {
		out[i] = plain(arg)
		out[i].end = r.base + int(arg.End().Offset())
		if out[i].open {
			out[i].script = strings.Join(r.outer, "\n")
		}
	}
	return out
}
