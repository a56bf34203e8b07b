// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/ports"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// listener takes a port of this machine and returns it.
func listener(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func TestPeersPorts(t *testing.T) {
	free, err := ports.Free(nil)
	if err != nil {
		t.Fatal(err)
	}
	used := listener(t)
	tests := map[string]struct {
		peers *Peers
		err   []string
		want  map[string]int
	}{
		"no peers":  {nil, nil, map[string]int{}},
		"free":      {&Peers{Ports: map[string][]int{"a": {free, free}}}, nil, map[string]int{"a": free, "a/1": free}},
		"in use":    {&Peers{Ports: map[string][]int{"a": {used}}}, []string{fmt.Sprint(used), "in use", "a listens on no other"}, nil},
		"last port": {&Peers{Ports: map[string][]int{"a": {free, used}}}, []string{fmt.Sprint(used)}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Sandbox{state: state{Ports: map[string]int{}}}
			err := s.reservePorts(tc.peers)
			if tc.err != nil {
				mustContain(t, err, tc.err...)
				return
			}
			if err != nil || fmt.Sprint(s.state.Ports) != fmt.Sprint(tc.want) {
				t.Errorf("ports %v (%v), want %v", s.state.Ports, err, tc.want)
			}
		})
	}
}

// The operator's providers are all there, by their names.
func TestProvidersOfTheOperator(t *testing.T) {
	for _, spec := range specs.All {
		if !slices.Contains(Providers, Provider(spec.Name)) {
			t.Errorf("the sandbox lacks provider %s", spec.Name)
		}
	}
	if string(LeaderWorkerSet) != specs.LeaderWorkerSet {
		t.Errorf("%s is called %s by the operator", LeaderWorkerSet, specs.LeaderWorkerSet)
	}
}

// sleepers are peers of one program that does nothing, and of a start that ends with an error.
func sleepers(t *testing.T, failure error) *Peers {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	return &Peers{Start: func(_ context.Context, s *Sandbox) error {
		return errors.Join(s.StartProgram(Program{Name: "sleeper", Path: path, Args: []string{"1000"}}), failure)
	}}
}

// TestPeers: their programs are processes of the sandbox.
func TestPeers(t *testing.T) {
	tier.All(t)
	s := startSandbox(t, Options{Name: "peers", Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1}, Provider: KAI, Peers: sleepers(t, nil)})
	index := slices.IndexFunc(s.Status(t.Context()).Components, func(c ComponentStatus) bool { return c.Name == "sleeper" && c.Running })
	if index < 0 {
		t.Fatalf("status %+v, want the sleeper running", s.Status(t.Context()))
	}
	again, err := Open(s.Dir())
	if err != nil || !slices.Equal(again.state.Programs, []string{"sleeper"}) {
		t.Errorf("recorded programs %v: %v", again.state.Programs, err)
	}
	p, err := proc.Load(s.pidFile("sleeper"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Signal(syscall.SIGKILL), p.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	if s.Status(t.Context()).Running || Running(s.Dir()) != nil {
		t.Error("the sandbox counts as whole without its peer")
	}
	testDownOf(t, s, len(Components)+1)
}

// TestPeersFail: Up takes everything down when peers do not start, or end at once.
func TestPeersFail(t *testing.T) {
	tier.All(t)
	refused := sleepers(t, nil)
	refused.Ports = map[string][]int{"sleeper": {listener(t)}}
	tests := map[string]struct {
		peers *Peers
		want  string
	}{
		"start fails":   {sleepers(t, errors.New("broken on purpose")), "broken on purpose"},
		"port in use":   {refused, "is in use"},
		"ends too soon": {&Peers{Start: func(ctx context.Context, s *Sandbox) error { return endsAtOnce(ctx, s) }}, "short has ended; the end of its log"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(shortTempDir(t), "s")
			t.Cleanup(func() { _ = Down(context.Background(), dir) })
			_, err := Up(t.Context(), Options{Name: "failing", Dir: dir, Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1}, Provider: KAI, Peers: tc.peers})
			mustContain(t, err, tc.want)
			if left := proc.FindByEnv(envMark + "=" + dir); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			if _, err := os.Stat(dir); name == "port in use" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a refused sandbox left its directory: %v", err)
			}
		})
	}
}

func endsAtOnce(ctx context.Context, s *Sandbox) error {
	if err := s.StartProgram(Program{Name: "short", Path: "/bin/sh", Args: []string{"-c", "echo gone"}}); err != nil {
		return err
	}
	p, err := proc.Load(s.pidFile("short"))
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}
