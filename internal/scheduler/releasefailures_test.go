// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

func placedSoFar(t *testing.T) int {
	m := dto.Metric{}
	if err := replicasPlaced.Write(&m); err != nil {
		t.Fatal(err)
	}
	return int(m.GetCounter().GetValue())
}

// A release that is refused permanently is reported, is tried again less and less often, and counts as one replica placed.
func TestRefusedReleasesAreReported(t *testing.T) {
	for name, refuse := range map[string]func(*opening){
		"the first pod": func(p *opening) { p.failing = "g2-work-0-0" },
		"the other pod": func(p *opening) { p.failing = "g2-work-0-1" },
		"the PodGroup":  func(p *opening) { p.form = errors.New("denied by a policy") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, p, o := newOpening(t)
				p.err = errors.New("denied by a policy")
				o.Pods[0].Labels[render.LabelComponent] = "work"
				refuse(p)
				placed, plans := placedSoFar(t), 0
				for second := range 600 {
					plans += b.settle() + b.settle()
					if r, _ := b.s.results.Get(clientKey(o), o.DGD.UID); second > 1 && (r.Placed > 0 || len(r.Waiting) != 1 || r.Waiting[0].Code != gang.CodeReleaseRefused) {
						t.Fatalf("after %d s placed %d, waiting %v", second, r.Placed, r.Waiting)
					}
					b.pass(time.Second)
				}
				if plans > 16 || placedSoFar(t) != placed+1 {
					t.Errorf("%d plans in ten minutes, %v replicas placed", plans, placedSoFar(t)-placed)
				}
				if n := len(b.said.Events); n != 1 {
					t.Errorf("%d events", n)
				} else if said := <-b.said.Events; !strings.Contains(said, "ReleaseRefused") || !strings.Contains(said, "denied by a policy") {
					t.Errorf("said was %s", said)
				}

				p.failing, p.form = "", nil
				b.pass(time.Minute)
				b.settle()
				b.settle()
				if r, _ := b.s.results.Get(clientKey(o), o.DGD.UID); r.Placed != 1 || len(r.Waiting) > 0 || len(b.s.ledger.failures) > 0 {
					t.Errorf("after a success placed %d, waiting %v, failures %v", r.Placed, r.Waiting, b.s.ledger.failures)
				}
			})
		})
	}
}

// One failure is over at the next try, and no one hears of it.
func TestASingleFailureIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, o := newOpening(t)
		p.failing, p.err = "g2-work-0-1", errors.New("timeout")
		b.settle()
		b.settle()
		p.failing = ""
		b.pass(retryAfter)
		b.settle()
		if r, _ := b.s.results.Get(clientKey(o), o.DGD.UID); r.Placed != 1 || len(b.said.Events) > 0 || len(b.s.ledger.failures) > 0 {
			t.Errorf("placed %d, waiting %v, %d events, failures %v", r.Placed, r.Waiting, len(b.said.Events), b.s.ledger.failures)
		}
	})
}

// What was never released and is not wanted any more says nothing about what comes after it.
func TestFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, o := newOpening(t)
		p.failing, p.err = "g2-work-0-0", errors.New("denied by a policy")
		b.settle()
		o.Groups[0].Spec.Replicas, o.Pods = 0, nil
		b.decide(o)
		if len(b.s.ledger.failures) > 0 {
			t.Errorf("still known: %v", b.s.ledger.failures)
		}
	})
}
