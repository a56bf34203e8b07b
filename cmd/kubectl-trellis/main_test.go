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
)

func TestUnknownCommands(t *testing.T) {
	for name, args := range map[string][]string{
		"of the plugin":    {"nonsense"},
		"of a subcommand":  {"sandbox", "nonsense"},
		"before its flags": {"sandbox", "nonsense", "--name", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			cmd := newRootCommand(genericiooptions.NewTestIOStreamsDiscard())
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
	if out, err := run(t, "sandbox"); err != nil || !strings.Contains(out, "Available Commands:") {
		t.Errorf("no subcommand: %q, %v, want the help", out, err)
	}
}

// TestClientsHaveALogger: without one, controller-runtime writes a stack trace to the terminal after 30 seconds.
func TestClientsHaveALogger(t *testing.T) {
	newRootCommand(genericiooptions.NewTestIOStreamsDiscard())
	if promise := reflect.ValueOf(log.Log.GetSink()).Elem().FieldByName("promise"); !promise.IsNil() {
		t.Error("no logger is set")
	}
}
