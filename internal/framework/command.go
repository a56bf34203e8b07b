// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/field"
)

// Detect returns the framework of a container: from the Dynamo module that the container's command runs, or otherwise the declared
// framework. It returns an error if the two differ, or if the command runs several frameworks.
func Detect(c *corev1.Container, declared string) (string, error) {
	found := names(programs(c), func(p program) bool { return p.module })
	switch {
	case len(found) > 1:
		return None, field.Errorf("the command runs several frameworks (%s); give each a %s of its own", strings.Join(found, ", "),
			field.WordComponent)
	case len(found) == 0:
		return declared, nil
	case declared != None && declared != found[0]:
		return None, fmt.Errorf("backend framework mismatch: detected %q from command but explicitly configured as %q; correct "+
			"spec.backendFramework or the command", found[0], declared)
	}
	return found[0], nil
}

// Found returns the only framework that the command itself starts, as a Dynamo module or with "vllm serve"; otherwise None.
func Found(c *corev1.Container) string {
	found := names(programs(c), func(p program) bool { return p.framework != ray })
	if len(found) != 1 {
		return None
	}
	return found[0]
}

// startsRay reports whether the command starts a Ray cluster itself.
func startsRay(c *corev1.Container) bool {
	return slices.ContainsFunc(programs(c), func(p program) bool { return p.framework == ray })
}

// names returns the frameworks of the selected programs, in order and without duplicates.
func names(all []program, which func(program) bool) []string {
	var out []string
	for _, p := range all {
		if which(p) && !slices.Contains(out, p.framework) {
			out = append(out, p.framework)
		}
	}
	return out
}

// flag is one command-line flag. alone marks a flag without a value.
type flag struct {
	name, value string
	alone       bool
	// shell: the value is an expression that a shell must evaluate.
	shell bool
}

// addFlags adds the flags that the command lacks to the framework's program. If the command is a list of words, it appends them. In a
// script, it inserts them after the module's name.
func addFlags(c *corev1.Container, flags ...flag) {
	flags = slices.DeleteFunc(flags, func(f flag) bool { return hasFlag(c, f.name) })
	if len(flags) == 0 {
		return
	}
	if script := shellScript(c); script != nil {
		*script = insertFlags(*script, flags)
		return
	}
	var tail []string
	for _, f := range flags {
		switch {
		case f.shell:
			tail = append(tail, f.name, `"`+f.value+`"`)
		case f.alone:
			c.Args = append(c.Args, f.name)
		default:
			c.Args = append(c.Args, f.name, f.value)
		}
	}
	if len(tail) > 0 {
		throughShell(c, `exec "$0" "$@" `+strings.Join(tail, " "))
	}
}

// throughShell runs a script in a shell, with the words of the command as $0 and $@.
func throughShell(c *corev1.Container, script string) {
	c.Command = slices.Concat([]string{"/bin/sh", "-c", script}, c.Command)
}

// insertFlags inserts flags at every start of a framework's program. It leaves all other text of the script unchanged.
func insertFlags(script string, flags []flag) string {
	var text strings.Builder
	for _, f := range flags {
		text.WriteString(" " + f.name)
		if !f.alone {
			text.WriteString(" " + f.value)
		}
	}
	var out strings.Builder
	done := 0
	for _, p := range scan(script) {
		if p.framework == ray {
			continue
		}
		out.WriteString(script[done:p.end] + text.String())
		done = p.end
	}
	return out.String() + script[done:]
}

// programWords returns the words of the framework's programs. If a word contains a variable, programWords also returns the words of the
// whole script, because any part of the script may set flags in the variable.
func programWords(c *corev1.Container) []string {
	if shellScript(c) == nil {
		return slices.Concat(c.Command, c.Args)
	}
	var out []string
	for _, p := range programs(c) {
		if p.framework == ray {
			continue
		}
		for _, w := range p.words {
			if w.open {
				out = append(out, strings.Fields(strings.ReplaceAll(w.script, "\\\n", " "))...)
				break
			}
		}
		out = append(out, texts(p.words)...)
	}
	return out
}

func hasFlag(c *corev1.Container, name string) bool {
	_, ok := flagValue(c, name)
	return ok
}

// takesUnderscores contains the frameworks whose programs accept "--name_of_flag" for "--name-of-flag". Python's own parser, which SGLang
// uses, does not accept underscores.
var takesUnderscores = map[string]bool{VLLM: true}

// flagValue returns the value in "--name value" or "--name=value". If a flag occurs several times, the last value applies.
func flagValue(c *corev1.Container, names ...string) (value string, ok bool) {
	all, underscores := programWords(c), takesUnderscores[Found(c)]
	for i, word := range all {
		name, inline, joined := strings.Cut(word, "=")
		if underscores && strings.HasPrefix(name, "--") {
			name = strings.ReplaceAll(name, "_", "-")
		}
		if !slices.Contains(names, name) {
			continue
		}
		value, ok = inline, true
		if !joined && i+1 < len(all) {
			value = all[i+1]
		}
	}
	return strings.Trim(value, `"'`), ok
}

// flagNumber returns the positive integer value of a flag, or 1 if the flag is missing. It returns false for any other value, such as a
// shell variable.
func flagNumber(c *corev1.Container, names ...string) (int64, bool) {
	value, given := flagValue(c, names...)
	if !given {
		return 1, true
	}
	n, err := strconv.ParseInt(value, 10, 32)
	return n, err == nil && n > 0
}
