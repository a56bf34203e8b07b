// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/cli/plugin"
)

// run executes the plugin and returns what it wrote to its standard output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := plugin.NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestUnknownCommands(t *testing.T) {
	for name, args := range map[string][]string{
		"of the plugin":   {"nonsense"},
		"of a subcommand": {"topology", "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			cmd := plugin.NewCommand(genericiooptions.NewTestIOStreamsDiscard())
			cmd.SetArgs(args)
			cmd.SetOut(&out)
			cmd.SetErr(&errOut)
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), `unknown command "nonsense" for "kubectl trellis`) {
				t.Errorf("error %v, want one with the unknown command", err)
			}
			if out.Len() != 0 || !strings.Contains(errOut.String(), "Usage:") {
				t.Errorf("output %q, errors %q, want the usage among the errors only", out.String(), errOut.String())
			}
		})
	}
	if out, err := run(t, "topology"); err != nil || !strings.Contains(out, "Available Commands:") {
		t.Errorf("no subcommand: %q, %v, want the help", out, err)
	}
}

// TestClientsHaveALogger: without one, controller-runtime writes a stack trace to the terminal after 30 seconds.
func TestClientsHaveALogger(t *testing.T) {
	plugin.NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	if promise := reflect.ValueOf(log.Log.GetSink()).Elem().FieldByName("promise"); !promise.IsNil() {
		t.Error("no logger is set")
	}
}
