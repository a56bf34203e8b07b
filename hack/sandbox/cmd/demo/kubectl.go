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

// kubectl runs the kubectl of the sandbox, and with it the plugin.
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

func (k *kubectl) close() { _ = os.RemoveAll(k.cache) } // cache has a few files in the temporary directory

// run runs a kubectl command and returns its output. It returns the error of the command as it is.
func (k *kubectl) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, k.path, args...)
	cmd.Env, cmd.Dir = k.env, k.root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// output runs a kubectl command and returns its standard output. The error contains the standard error output.
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

// run prints and runs a command, and prints its output.
func (d *demo) run(ctx context.Context, args ...string) error {
	d.stage.show(typed(args))
	out, err := d.kubectl.run(ctx, args...)
	d.stage.print(out)
	if err != nil {
		return fmt.Errorf("this command failed: %w", err)
	}
	return nil
}

// write prints and runs a command, and writes its output to a file of the clone.
func (d *demo) write(ctx context.Context, file string, args ...string) error {
	d.stage.show(typed(args) + " > " + file)
	out, err := d.kubectl.output(ctx, args...)
	if err != nil {
		return fmt.Errorf("this command failed: %w", err)
	}
	return os.WriteFile(filepath.Join(d.root, file), out, 0o644) //nolint:gosec // for everybody to look at
}

// refusals are the phrases of the API server when the schema, admission or strict decoding of unknown fields rejects an object.
var refusals = []string{"is invalid", "denied", "strict decoding error", "error validating"}

// refused prints and runs a command that the API server must reject.
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

// typed is a command as a user would type it into a shell, broken into several lines when it is too long.
func typed(args []string) string {
	command, line := "", "kubectl"
	for i := 0; i < len(args); i++ {
		word := quote(args[i])
		if isFlag(args[i]) && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++ // the value of a flag stays on the line of the flag
			word += " " + quote(args[i])
		}
		if text.Width("$ "+line+" "+word+` \`) > text.Columns {
			command, line = command+line+" \\\n", "   "
		}
		line += " " + word
	}
	return command + line
}

// isFlag reports whether an argument is a flag (-x or --long) whose value is the next argument.
func isFlag(arg string) bool { return strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") }

// quote quotes a text as one word of a shell command.
func quote(word string) string {
	if !strings.ContainsAny(word, ` '"{}[]$\*?<>|&;()!#~`+"`\t\n") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
