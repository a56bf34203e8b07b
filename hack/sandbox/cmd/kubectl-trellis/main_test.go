// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/command"
	"github.com/trellis-k8s/trellis/internal/cli/plugin"
)

// run executes the plugin and returns what it wrote to its standard output and its standard error.
func run(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := plugin.NewCommand(genericiooptions.NewTestIOStreamsDiscard(), command.New())
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	err = cmd.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

// The sandbox is a tool of the repository: the plugin of make build has the command, and its help does not list it.
func TestSandboxIsHidden(t *testing.T) {
	if out, _, err := run(t, "--help"); err != nil || strings.Contains(out, "sandbox") {
		t.Errorf("help: %v\n%s", err, out)
	}
	if out, _, err := run(t, "sandbox", "--help"); err != nil || !strings.Contains(out, "up") {
		t.Errorf("help of the sandbox: %q (%v)", out, err)
	}
}

func TestUnknownCommandOfTheSandbox(t *testing.T) {
	out, errOut, err := run(t, "sandbox", "nonsense", "--name", "x")
	if err == nil || !strings.Contains(err.Error(), `unknown command "nonsense" for "kubectl trellis sandbox`) {
		t.Errorf("error %v, want one with the unknown command", err)
	}
	if out != "" || !strings.Contains(errOut, "Usage:") {
		t.Errorf("output %q, errors %q, want the usage among the errors only", out, errOut)
	}
}
