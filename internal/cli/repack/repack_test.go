// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// run is the command as a user would give it, on the files of a folder.
func run(t *testing.T, folder string, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	cmd.SetArgs(append([]string{"-f", filepath.Join("testdata", folder)}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// TestText shows the whole output of each way to ask.
func TestText(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		exit error
	}{
		"for":             {args: []string{"--for", "chat", "-n", "team-a"}},
		"first":           {},
		"free":            {args: []string{"--free", "rack=1"}},
		"free-too-many":   {args: []string{"--free", "rack=3"}, exit: exitNoMoves},
		"for-no-moves":    {args: []string{"--for", "chat", "-n", "team-a", "--max-gpus", "3"}, exit: exitNoMoves},
		"for-that-runs":   {args: []string{"--for", "embed", "-n", "team-b"}},
		"free-by-default": {args: []string{"--free", "zone=1"}, exit: exitNoMoves},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := run(t, "hall", append(tc.args, "--dry-run")...)
			if !errors.Is(err, tc.exit) {
				t.Fatalf("ends with %v, want %v\n%s%s", err, tc.exit, out, errOut)
			}
			golden.Check(t, filepath.Join("testdata", name+".golden"), out)
			if errOut != "" {
				t.Errorf("it warns: %s", errOut)
			}
		})
	}
}

func TestForPrograms(t *testing.T) {
	out, errOut, err := run(t, "hall", "--for", "chat", "-n", "team-a", "-o", "json")
	if err != nil {
		t.Fatal(err, errOut)
	}
	var r Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !r.Found || r.GPUs != 4 || r.Replicas != 1 || len(r.Moves) != 1 || r.Moves[0].Name != "embed" || r.Gang != "Worker-1" || len(r.Hosts) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"both":              {[]string{"--for", "chat", "--free", "rack=1"}, "--for and --free ask for different moves"},
		"no number":         {[]string{"--free", "rack"}, "--free rack: want LEVEL=N, for example rack=2"},
		"none":              {[]string{"--free", "rack=0"}, "--free rack=0: want LEVEL=N"},
		"no such level":     {[]string{"--free", "row=1", "--topology", "hall"}, "--free row: ClusterTopology hall has no such level; there are: zone, rack"},
		"no such topology":  {[]string{"--free", "rack=1", "--topology", "other"}, "--topology other: there is no ClusterTopology of that name"},
		"topology alone":    {[]string{"--topology", "hall"}, "--topology is that of --free"},
		"no such graph":     {[]string{"--for", "chatt", "-n", "team-a"}, "did you mean"},
		"apply and dry run": {[]string{"--for", "chat", "--apply", "--dry-run"}, "--apply and --dry-run exclude each other"},
		"apply on files":    {[]string{"--for", "chat", "--apply"}, "--apply changes the cluster, and -f plans on files"},
		"a negative number": {[]string{"--for", "chat", "--max-gpus", "-1"}, "--max-gpus -1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, "hall", tc.args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			var exit cli.Exit
			if errors.As(err, &exit) {
				t.Errorf("wrong input ends with %d", exit)
			}
		})
	}
}

// Nothing of the files is an object that a plan does not know.
func TestInput(t *testing.T) {
	names, err := os.ReadDir(filepath.Join("testdata", "hall"))
	if err != nil || len(names) == 0 {
		t.Fatal("no input", err)
	}
	if _, errOut, _ := run(t, "hall", "--dry-run"); strings.Contains(errOut, "skipped") {
		t.Error(errOut)
	}
}
