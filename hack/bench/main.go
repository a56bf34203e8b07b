// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Bench measures Trellis against its peers, all in one run on one machine, and prints one table: make bench, and make bench-peers against
// the real KAI Scheduler and Grove.
//
// Peers of make bench are Kueue's topology-aware scheduling as a library, the topology-aware gang scheduling of the kube-scheduler in a
// sandbox, and a brute-force search. All answers of all sides are checked by the same rules (package hall), and a wrong answer ends the
// run. docs/dev/performance.md describes the measurements and their fairness.
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

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == memoryChild {
		exit(holdTree(os.Args[2]))
	}
	var o options
	smoke := flag.Bool("smoke", false, "small sizes: shows that everything works, measures nothing worth knowing")
	only := flag.String("only", "", "rows to run, by name, separated by commas (default: all)")
	flag.BoolVar(&o.sandbox, "sandbox", true, "run the rows that need a control plane, too")
	beside := flag.Bool("peers", false, "measure the providers against each other instead, beside the real KAI Scheduler and Grove")
	rounds := flag.Int("rounds", 0, "rounds of the rows created to bound (default: 6, with -peers 3)")
	out := flag.String("out", "", "file for the figures as JSON")
	flag.Parse()
	full, small := fullSizes, smokeSizes
	if o.parts = parts; *beside {
		o.parts, full, small = peerParts, peerSizes, smallPeerSizes
	}
	if o.sizes = full; *smoke {
		o.sizes = small
	}
	if *rounds > 0 {
		o.sizes.live.rounds = *rounds
	}
	o.only = strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard())
	exit(run(ctx, o, *out))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, o options, out string) error {
	chosen, err := o.chosen()
	if err != nil {
		return err
	}
	r := newReport(o.sizes)
	var failed []error
	for _, part := range chosen {
		fmt.Fprintf(os.Stderr, "measuring: %s\n", part.what)
		if err := part.measure(ctx, o.sizes, r); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", part.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	failed = append(failed, r.print(os.Stdout))
	if out != "" {
		failed = append(failed, r.write(out))
	}
	return errors.Join(failed...)
}
