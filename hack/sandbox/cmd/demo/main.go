// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo (make demo) shows without questions what Trellis does, in a sandbox of its own: it packs graphs, rejects invalid ones, and
// shows what happens when a topology level is removed. It prints each command before it runs it, so that a reader can repeat the
// commands: with --keep the sandbox stays.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// Exit codes.
const (
	exitFailed      = 1
	exitInterrupted = 130
)

func main() {
	keep := flag.Bool("keep", false, "leave the sandbox running")
	name := flag.String("name", "demo", "name of the sandbox")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, newStage(os.Stdout), *name, *keep)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, stage *stage, name string, keep bool) int {
	log.SetLogger(logr.New(log.NullLogSink{})) // without a logger, controller-runtime logs a warning after half a minute
	d := &demo{stage: stage, name: name, keep: keep, started: time.Now()}
	at, err := d.perform(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(d.stage, "\ninterrupted")
	case err != nil:
		d.complain(at, err)
	}
	if end := d.leave(); err == nil {
		err = end
	}
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		return exitFailed
	}
	return 0
}

// demo is one run of the demo.
type demo struct {
	stage   *stage
	name    string
	keep    bool
	started time.Time

	root    string
	sandbox *sandbox.Sandbox // nil until it is up
	kubectl *kubectl
	samples *samples
	summary []string
}

// step is one step of the demo.
type step struct {
	title string
	do    func(context.Context) error
}

func (d *demo) steps() []step {
	return []step{
		{"A cluster to play with", d.bringUp},
		{"The cluster's topology", d.applyTopology},
		{"What others do on the cluster", d.applyNeighbours},
		{"Three inference graphs", d.applyGraphs},
		{"Where they sit", d.showPlacement},
		{"What does not fit waits as a unit, and reports why", d.overload},
		{"What is refused, and what users read then", d.showRefusals},
		{"A topology level goes away under running graphs", d.loseLevel},
	}
}

// perform runs all steps and returns the title of the step that failed.
func (d *demo) perform(ctx context.Context) (at string, err error) {
	for i, s := range d.steps() {
		d.stage.heading(fmt.Sprintf("%d. %s", i+1, s.title))
		if err := s.do(ctx); err != nil {
			return s.title, err
		}
	}
	return "", nil
}

func (d *demo) bringUp(ctx context.Context) error {
	var err error
	if err = d.prepare(); err != nil {
		return err
	}
	d.stage.say("A real control plane in plain processes, simulated nodes, and the operator installed from config/default. No containers; " +
		"the first time ever, the control plane is built from Go modules, which takes a while.")
	d.stage.show("make sandbox-up ARGS='--name " + d.name + "'")
	opts := sandbox.Options{Name: d.name, Root: d.root, Shape: simulated.DefaultShape, Operator: true, Progress: d.stage.progress}
	began := time.Now()
	s, err := sandbox.Up(ctx, opts)
	if errors.Is(err, sandbox.ErrRunning) {
		return fmt.Errorf("a sandbox called %s is running already, of an earlier demo or of one in progress; end it with\n  %s", d.name,
			d.downCommand())
	}
	if err != nil {
		return err // Up has removed everything but the logs that its error names
	}
	d.sandbox = s
	took := seconds(time.Since(began))
	shape := opts.Shape
	hosts := shape.Zones * shape.Blocks * shape.Racks * shape.Hosts
	d.stage.say("Ready after %s: %d zones of %d blocks of %d racks of %d hosts of %d GPUs.",
		took, shape.Zones, shape.Blocks, shape.Racks, shape.Hosts, shape.GPUs)
	d.sum("a control plane with %d hosts and the operator, up in %s", hosts, took)
	d.kubectl, err = newKubectl(d.root, d.sandbox)
	return err
}

// prepare finds the clone and reads the samples, before the demo starts anything.
func (d *demo) prepare() error {
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	if d.root, err = binaries.FindRoot(wd); err != nil {
		return err
	}
	d.samples, err = readSamples(d.root)
	return err
}

func (d *demo) sum(format string, args ...any) {
	d.summary = append(d.summary, fmt.Sprintf(format, args...))
}

// complain prints the failure and the end of the operator's log.
func (d *demo) complain(at string, err error) {
	fmt.Fprintf(d.stage, "\n%s\n%v\n", d.stage.bold(fmt.Sprintf("The demo failed at %q:", at)), err)
	if d.sandbox != nil {
		fmt.Fprintf(d.stage, "\nThe last lines of the operator's log:\n%s\n", operatorLog(d.sandbox))
	}
}

// leave deletes the sandbox, or prints how to use and delete it.
func (d *demo) leave() error {
	if d.kubectl != nil {
		d.kubectl.close()
	}
	if d.sandbox == nil {
		return nil
	}
	if d.keep {
		d.finish()
		d.stage.heading("The sandbox is still running")
		fmt.Fprintf(d.stage, "  export KUBECONFIG=%s\n  export PATH=%s:%s:$PATH\n  kubectl trellis tree\n\nTake it down with\n  %s\n",
			quote(d.sandbox.Kubeconfig()), quote(d.root+"/bin"), quote(d.sandbox.Assets()), d.downCommand())
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d.stage.heading("Taking the sandbox down")
	d.stage.show("make sandbox-down ARGS='--name " + d.name + "'")
	if err := d.sandbox.Down(ctx); err != nil {
		fmt.Fprintf(d.stage, "this failed: %v\n", err)
		return err
	}
	d.stage.say("No process and no file of it is left.")
	d.finish()
	return nil
}

func (d *demo) downCommand() string { return "make sandbox-down ARGS='--name " + d.name + "'" }

// finish prints the summary of a complete demo.
func (d *demo) finish() {
	if len(d.summary) < len(d.steps()) {
		return
	}
	d.stage.heading(fmt.Sprintf("What you have seen, in %s", seconds(time.Since(d.started))))
	fmt.Fprintf(d.stage, "  - %s\n", strings.Join(d.summary, "\n  - "))
	if !d.keep {
		fmt.Fprint(d.stage, "\nNext\n  make demo KEEP=1    the same, and the sandbox stays for you to play with\n"+
			"  config/samples      the manifests used here\n  README.md           a tour on a real cluster\n")
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
