// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// kubectl runs the sandbox's kubectl, and through it the plugin.
type kubectl struct {
	path, root, cache string
	env               []string
}

func newKubectl(root string, s *sandbox.Sandbox) (*kubectl, error) {
	cache, err := os.MkdirTemp("", "trellis-demo-")
	if err != nil {
		return nil, err
	}
	path := strings.Join([]string{filepath.Join(root, "bin"), s.Assets(), os.Getenv("PATH")}, string(os.PathListSeparator))
	env := append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(), "PATH="+path, "KUBECACHEDIR="+cache)
	return &kubectl{path: filepath.Join(s.Assets(), "kubectl"), root: root, cache: cache, env: env}, nil
}

func (k *kubectl) close() { _ = os.RemoveAll(k.cache) } // a few files in the system's temporary directory

// run returns what a command printed. The error is the command's, with nothing added.
func (k *kubectl) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, k.path, args...)
	cmd.Env, cmd.Dir = k.env, k.root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// output returns what a command wrote to its standard output. The error has what it wrote to the other one.
func (k *kubectl) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, k.path, args...)
	cmd.Env, cmd.Dir = k.env, k.root
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.String())
	}
	return out, nil
}

// run shows a command and what it prints.
func (d *demo) run(ctx context.Context, args ...string) error {
	d.stage.show(typed(args))
	out, err := d.kubectl.run(ctx, args...)
	d.stage.print(out)
	if err != nil {
		return fmt.Errorf("this command failed: %w", err)
	}
	return nil
}

// write shows a command whose output goes into a file of the clone.
func (d *demo) write(ctx context.Context, file string, args ...string) error {
	d.stage.show(typed(args) + " > " + file)
	out, err := d.kubectl.output(ctx, args...)
	if err != nil {
		return fmt.Errorf("this command failed: %w", err)
	}
	return os.WriteFile(filepath.Join(d.root, file), out, 0o644) //nolint:gosec // for everybody to look at
}

// refusals are the words by which the API server turns an object down: the schema, admission, and fields that it does not know.
var refusals = []string{"is invalid", "denied", "strict decoding error", "error validating"}

// refused shows a command that the API server has to refuse.
func (d *demo) refused(ctx context.Context, args ...string) error {
	d.stage.show(typed(args))
	out, err := d.kubectl.run(ctx, args...)
	d.stage.print(out)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return errors.New("this was to be refused, and was accepted")
	case !errors.As(err, &exit):
		return fmt.Errorf("this command failed: %w", err)
	case !slices.ContainsFunc(refusals, func(words string) bool { return strings.Contains(out, words) }):
		return errors.New("this was to be refused by admission, and failed otherwise")
	}
	return nil
}

// typed is a command as it would be typed into a shell, in several lines when one is too short.
func typed(args []string) string {
	command, line := "", "kubectl"
	for i := 0; i < len(args); i++ {
		word := quote(args[i])
		if isFlag(args[i]) && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++ // its value stays alongside it
			word += " " + quote(args[i])
		}
		if text.Width("$ "+line+" "+word+` \`) > text.Columns {
			command, line = command+line+" \\\n", "   "
		}
		line += " " + word
	}
	return command + line
}

// isFlag: -x or --long, with the value in the next word.
func isFlag(arg string) bool { return strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") }

// quote makes a text one word of a shell's.
func quote(word string) string {
	if !strings.ContainsAny(word, ` '"{}[]$\*?<>|&;()!#~`+"`\t\n") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
