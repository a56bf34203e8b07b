// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command, as the program receives it.
type word struct {
	text string
	// open: the word contains a variable, which may expand to any number of words.
	open bool
	// end is the offset at which the word ends in its script.
	end int
	// script is the script that may set the variable of an open word.
	script string
}

func texts(words []word) []string {
	out := make([]string, len(words))
	for i := range words {
		out[i] = words[i].text
	}
	return out
}

// program is one occurrence of a framework's program in a command.
type program struct {
	framework string
	// module: the program is started as a Dynamo module. Only such a program is compared with the declared framework.
	module bool
	words  []word
	// end is the offset in the script at which flags can be inserted: after the module's name, or after the model of "vllm serve".
	end int
}

var (
	python = regexp.MustCompile(`^python[0-9.]*$`)
	module = regexp.MustCompile(`^dynamo\.(vllm|sglang|trtllm)(\.[A-Za-z0-9_.]+)?$`)
)

// programs returns the framework programs that a container starts. If the command is a list of words, program.end has no meaning.
func programs(c *corev1.Container) []program {
	if script := shellScript(c); script != nil {
		return scan(*script)
	}
	all := slices.Concat(c.Command, c.Args)
	words := make([]word, len(all))
	for i, text := range all {
		words[i].text = text
	}
	found := programsIn(words)
	if len(found) > 0 {
		return found
	}
	for _, text := range all { // an entrypoint that runs a command line
		if strings.ContainsAny(text, " \t\n") {
			found = append(found, scan(text)...)
		}
	}
	for i := range found {
		found[i].words = words
	}
	return found
}

// programsIn returns the program that a command starts, possibly through wrappers such as exec or numactl. All later words belong to this
// program.
func programsIn(words []word) []program {
	for i, w := range words {
		base := path.Base(w.text)
		switch {
		case python.MatchString(base):
			if at := moduleAt(words, i+1); at >= 0 {
				name := module.FindStringSubmatch(words[at].text)[1]
				return []program{{framework: name, module: true, words: words, end: words[at].end}}
			}
		case base == "vllm" && i+1 < len(words) && words[i+1].text == "serve":
			end := i + 1
			if end+1 < len(words) && !strings.HasPrefix(words[end+1].text, "-") {
				end++
			}
			return []program{{framework: VLLM, words: words, end: words[end].end}}
		case base == "ray" && i+1 < len(words) && words[i+1].text == "start":
			return []program{{framework: ray, words: words, end: words[i+1].end}}
		}
	}
	return nil
}

// ray marks a program that starts a Ray cluster. No framework starts a Ray cluster on its own.
const ray = "ray"

// moduleAt returns the index of the framework's module in "-m module" after Python's options; -1 if Python runs another module or a file.
func moduleAt(words []word, i int) int {
	for ; i+1 < len(words) && strings.HasPrefix(words[i].text, "-"); i++ {
		if words[i].text == "-m" {
			if module.MatchString(words[i+1].text) {
				return i + 1
			}
			return -1
		}
	}
	return -1
}

// plain evaluates a word as far as this is possible without running the script.
func plain(w *syntax.Word) word {
	var b strings.Builder
	out := word{}
	var parts func([]syntax.WordPart, bool)
	parts = func(list []syntax.WordPart, quoted bool) {
		for _, part := range list {
			switch part := part.(type) {
			case *syntax.Lit:
				b.WriteString(unescaped(part.Value, quoted))
			case *syntax.SglQuoted:
				b.WriteString(part.Value)
			case *syntax.DblQuoted:
				parts(part.Parts, true)
			case *syntax.ParamExp:
				out.open = true
				b.WriteByte('$')
			default: // a command substitution, or a reference that Kubernetes expands
				b.WriteByte('$')
			}
		}
	}
	parts(w.Parts, false)
	out.text = b.String()
	return out
}

// unescaped removes backslashes that quote a character.
func unescaped(s string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("$`\"\\\n", s[i+1]) >= 0) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// expansions returns the names of the variables in a word.
func expansions(w *syntax.Word) []string {
	var names []string
	syntax.Walk(w, func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
			names = append(names, p.Param.Value)
		}
		return true
	})
	return names
}
