// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// gap is the white space of a shell script, continued lines included.
const gap = `(?:\s|\\\n)+`

// invocation matches a Python that runs one of the frameworks; the framework is the first group.
var invocation = regexp.MustCompile(`\bpython[0-9.]*` + gap + `(?:-[A-Za-z]` + gap + `)*?-m` + gap + `dynamo\.(vllm|sglang|trtllm)(?:\.[A-Za-z0-9_.]+)?(?:[^A-Za-z0-9_.-]|$)`)

// comment matches what a shell does not run: a line that starts with '#'.
var comment = regexp.MustCompile(`(?m)^[ \t]*#.*$`)

// Detect tells the framework of a container: from its command, else as declared for the deployment. It is an error when these differ or
// when the command runs several.
func Detect(c *corev1.Container, declared string) (string, error) {
	var found []string
	for _, word := range words(c) {
		for _, match := range invocation.FindAllStringSubmatch(word, -1) {
			if !slices.Contains(found, match[1]) {
				found = append(found, match[1])
			}
		}
	}
	switch {
	case len(found) > 1:
		return None, fmt.Errorf("the command runs several frameworks (%s); give each a service of its own", strings.Join(found, ", "))
	case len(found) == 0:
		return declared, nil
	case declared != None && declared != found[0]:
		return None, fmt.Errorf("backend framework mismatch: detected %q from command but explicitly configured as %q; correct spec.backendFramework or the command", found[0], declared)
	}
	return found[0], nil
}

// Found is the one framework that the command itself shows, or None.
func Found(c *corev1.Container) string {
	name, err := Detect(c, None)
	if err != nil {
		return None
	}
	return name
}

// words returns the texts to search: the shell script if there is one, else the whole list of words as one.
func words(c *corev1.Container) []string {
	if script := shellScript(c); script != nil {
		return []string{blankComments(*script)}
	}
	return []string{strings.Join(slices.Concat(c.Command, c.Args), " ")}
}

// blankComments keeps every other character where it is.
func blankComments(script string) string {
	return comment.ReplaceAllStringFunc(script, func(s string) string { return strings.Repeat(" ", len(s)) })
}

// shellScript finds the script of "sh -c script", however the words are divided between command and args.
func shellScript(c *corev1.Container) *string {
	all := make([]*string, 0, len(c.Command)+len(c.Args))
	for _, list := range [][]string{c.Command, c.Args} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	if len(all) < 3 {
		return nil
	}
	switch path.Base(*all[0]) {
	case "sh", "bash", "dash", "ash", "zsh":
	default:
		return nil
	}
	for i := 1; i < len(all)-1; i++ {
		option := *all[i]
		switch {
		case strings.HasPrefix(option, "--"): // --login and the like
		case !strings.HasPrefix(option, "-"):
			return nil // a script file, or a program to run
		case strings.Contains(option, "c"):
			return all[i+1]
		case strings.HasSuffix(option, "o"): // -o pipefail
			i++
		}
	}
	return nil
}

// flag is one command line flag; a nil value stands alone.
type flag struct {
	name, value string
	alone       bool
	// shell: the value is an expression that only a shell can work out.
	shell bool
}

// addFlags gives the program more flags: appended to a list of words, or right behind the module's name in a script.
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

// throughShell runs script in a shell that has the words of the command as $0 and $@.
func throughShell(c *corev1.Container, script string) {
	c.Command = slices.Concat([]string{"/bin/sh", "-c", script}, c.Command)
}

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
	for _, match := range invocation.FindAllStringSubmatchIndex(blankComments(script), -1) {
		end := match[3] // of the framework's name; the rest of the module's name follows
		for end < len(script) && isModuleChar(script[end]) {
			end++
		}
		out.WriteString(script[done:end] + text.String())
		done = end
	}
	return out.String() + script[done:]
}

func isModuleChar(b byte) bool {
	return b == '.' || b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// commandWords splits the command into words, scripts at white space: enough to find flags and their plain values.
func commandWords(c *corev1.Container) []string {
	if script := shellScript(c); script != nil {
		return strings.Fields(strings.ReplaceAll(blankComments(*script), "\\\n", " "))
	}
	return slices.Concat(c.Command, c.Args)
}

func hasFlag(c *corev1.Container, name string) bool {
	_, ok := flagValue(c, name)
	return ok
}

// flagValue finds "--name value" or "--name=value"; the last one counts.
func flagValue(c *corev1.Container, names ...string) (value string, ok bool) {
	all := commandWords(c)
	for i, word := range all {
		name, inline, joined := strings.Cut(word, "=")
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

// flagNumber reads a flag's whole number, 1 when it is not given. It returns false for anything else, such as a shell variable.
func flagNumber(c *corev1.Container, names ...string) (int64, bool) {
	value, given := flagValue(c, names...)
	if !given {
		return 1, true
	}
	n, err := strconv.ParseInt(value, 10, 32)
	return n, err == nil && n > 0
}
