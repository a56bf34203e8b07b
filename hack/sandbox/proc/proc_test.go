// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// start runs a shell script.
func start(t *testing.T, script string, env ...string) *Process {
	t.Helper()
	dir := t.TempDir()
	p, err := Start(Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Env: append(os.Environ(), env...), Dir: dir,
		LogFile: filepath.Join(dir, "log"), PIDFile: filepath.Join(dir, "script.pid"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill(t.Context()) })
	return p
}

// waitFor waits until the log holds a text.
func waitFor(t *testing.T, p *Process, text string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return strings.Contains(Tail(p.LogFile, 100), text), nil
	})
	if err != nil {
		t.Fatalf("the log never said %q: %s", text, Tail(p.LogFile, 100))
	}
}

func TestLifeOfAProcess(t *testing.T) {
	p := start(t, "echo hello; echo trouble >&2; exec sleep 60")
	waitFor(t, p, "trouble")
	if got := Tail(p.LogFile, 1); got != "  trouble" {
		t.Errorf("last line of the log: %q", got)
	}
	found, err := Load(p.pidFile)
	if err != nil {
		t.Fatal(err)
	}
	if found.PID != p.PID || found.Name != "script" || found.LogFile != p.LogFile || !found.Alive() {
		t.Errorf("found %+v alive %v, want %+v", found, found.Alive(), p)
	}
	if err := found.Stop(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if p.Alive() || found.Alive() {
		t.Error("alive after Stop")
	}
	if _, err := Load(p.pidFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pid file is still there: %v", err)
	}
	if err := p.Stop(t.Context(), time.Second); err != nil {
		t.Errorf("stopping what has ended: %v", err)
	}
}

func TestStopInsists(t *testing.T) {
	p := start(t, "trap '' TERM; echo deaf; while :; do sleep 1; done")
	waitFor(t, p, "deaf")
	if err := p.Stop(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("alive after Stop")
	}
}

func TestEndedAtOnce(t *testing.T) {
	p := start(t, "exit 3")
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("an ended process is alive")
	}
	if found, err := Load(p.pidFile); err != nil || found.Alive() {
		t.Errorf("found %+v (%v), want an ended process", found, err)
	}
}

// A pid file whose pid now belongs to another process must not lead to that process.
func TestRecycledPID(t *testing.T) {
	p := start(t, "exec sleep 60")
	for name, started := range map[string]string{"started at another time": "another-boot/1", "start unknown": ""} {
		t.Run(name, func(t *testing.T) {
			stale := filepath.Join(t.TempDir(), "stale.pid")
			data, err := json.Marshal(record{Name: "old", PID: p.PID, Started: started})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(stale, data, 0o600); err != nil {
				t.Fatal(err)
			}
			old, err := Load(stale)
			if err != nil {
				t.Fatal(err)
			}
			if old.Alive() {
				t.Error("another program's process counts as ours")
			}
			if err := old.Kill(t.Context()); err != nil {
				t.Error(err)
			}
			if !p.Alive() {
				t.Fatal("killed another program's process")
			}
		})
	}
}

func TestLoadAllSkipsRubbish(t *testing.T) {
	p := start(t, "exec sleep 60")
	dir := filepath.Dir(p.pidFile)
	for name, content := range map[string]string{"half.pid": `{"pid":1`, "empty.pid": "", "other.txt": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := LoadAll(dir)
	if err != nil || len(all) != 1 || all[0].PID != p.PID {
		t.Errorf("found %v (%v), want only pid %d", all, err, p.PID)
	}
}

func TestFindByEnv(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	mark := fmt.Sprintf("TRELLIS_TEST_MARK=%s", t.TempDir())
	p := start(t, "echo up; kill -STOP $$", mark) // amid an exec a process has no environment
	waitFor(t, p, "up")
	found := FindByEnv(mark)
	if len(found) != 1 || found[0].PID != p.PID {
		t.Fatalf("found %v, want pid %d", found, p.PID)
	}
	if other := FindByEnv(mark + "x"); len(other) != 0 {
		t.Errorf("a longer value matches: %v", other)
	}
	if err := found[0].Kill(t.Context()); err != nil || p.Alive() {
		t.Errorf("killing by mark: %v", err)
	}
}

func TestTail(t *testing.T) {
	tests := map[string]struct {
		content string
		lines   int
		want    string
	}{
		"fewer lines than asked for": {"a\nb\n", 5, "  a\n  b"},
		"the last ones":              {"a\nb\nc\n", 2, "  b\n  c"},
		"no newline at the end":      {"a\nb", 1, "  b"},
		"a long log":                 {strings.Repeat("x\n", 200_000) + "end\n", 1, "  end"},
		"noise left out":             {"a\nthis is noise\nb\n", 2, "  a\n  b"},
		"a long line":                {strings.Repeat("x", 401), 1, "  " + strings.Repeat("x", 400) + "..."},
		"an empty log":               {"", 3, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := Tail(file, tc.lines, "noise"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := Tail(filepath.Join(t.TempDir(), "none"), 3); got != "" {
		t.Errorf("a missing log gives %q", got)
	}
}
