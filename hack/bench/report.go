// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
)

// none is the target of a row without one.
const none = "-"

// row is one line of the table and one entry of the JSON.
type row struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Ours     float64 `json:"ours"`
	Peer     float64 `json:"peer"`
	PeerName string  `json:"peerName"`
	Ratio    float64 `json:"ratio"`
	Target   float64 `json:"target"`
	Met      bool    `json:"met"`

	goal string
}

// report collects rows and remarks.
type report struct {
	sizes sizes
	rows  []row
	notes []string
}

func newReport(s sizes) *report { return &report{sizes: s} }

func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *report) add(one row, goal string, met bool) {
	one.goal, one.Met = goal, met
	r.rows = append(r.rows, one)
}

// faster adds a row of times: the peer's time is to be at least target times ours.
func (r *report) faster(name, unit string, ours, peer float64, peerName string, target float64) {
	one := row{Name: name, Unit: unit, Ours: ours, Peer: peer, PeerName: peerName, Ratio: peer / ours, Target: target}
	r.add(one, "ratio >= "+number(target), one.Ratio >= target)
}

// more adds a row of amounts: ours is to be at least target times the peer's.
func (r *report) more(name, unit string, ours, peer float64, peerName string, target float64) {
	one := row{Name: name, Unit: unit, Ours: ours, Peer: peer, PeerName: peerName, Ratio: ours / peer, Target: target}
	r.add(one, "ratio >= "+number(target), one.Ratio >= target)
}

// atMost adds a row with a maximum for the ratio of ours to the peer's.
func (r *report) atMost(name, unit string, ours, peer float64, peerName string, target float64) {
	one := row{Name: name, Unit: unit, Ours: ours, Peer: peer, PeerName: peerName, Ratio: ours / peer, Target: target}
	r.add(one, "ratio <= "+number(target), one.Ratio <= target)
}

// floor adds a row with a minimum for our figure, and ceiling a row with a maximum for it; the ratio shows how much better than the peer's
// it is.
func (r *report) floor(name, unit string, ours, peer float64, peerName string, target float64) {
	one := row{Name: name, Unit: unit, Ours: ours, Peer: peer, PeerName: peerName, Ratio: ours / peer, Target: target}
	r.add(one, "ours >= "+number(target), ours >= target)
}

func (r *report) ceiling(name, unit string, ours, peer float64, peerName string, target float64) {
	one := row{Name: name, Unit: unit, Ours: ours, Peer: peer, PeerName: peerName, Ratio: peer / ours, Target: target}
	r.add(one, "ours <= "+number(target), ours <= target)
}

// beside adds a row of times without a target.
func (r *report) beside(name, unit string, ours, peer float64, peerName string) {
	r.add(row{Name: name, Unit: unit, Ours: ours, Peer: peer, PeerName: peerName, Ratio: peer / ours}, none, true)
}

// compare adds a row of amounts without a target.
func (r *report) compare(name, unit string, ours, peer float64, peerName string) {
	r.add(row{Name: name, Unit: unit, Ours: ours, Peer: peer, PeerName: peerName, Ratio: ours / peer}, none, true)
}

// alone adds a row without a peer and with a maximum.
func (r *report) alone(name, unit string, ours, target float64) {
	r.ceiling(name, unit, ours, math.NaN(), "", target)
}

// print writes the table.
func (r *report) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n\n", r.header())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WORK\tUNIT\tOURS\tPEER\tPEER IS\tRATIO\tTARGET\tMET")
	missed, targets := 0, 0
	for _, one := range r.rows {
		if one.goal != none {
			targets++
		}
		met := "yes"
		if !one.Met {
			met = "NO"
			missed++
		}
		if r.sizes.smoke || one.goal == none {
			met = none
		}
		fmt.Fprintln(w, strings.Join([]string{
			one.Name, one.Unit, number(one.Ours), number(one.Peer), one.PeerName, number(one.Ratio), one.goal, met,
		}, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range r.notes {
		fmt.Fprintf(out, "\n%s", n)
	}
	switch {
	case r.sizes.smoke:
		fmt.Fprintf(out, "\n\nSmoke run: all answers are valid. The figures mean nothing at these sizes.\n")
	case missed > 0:
		fmt.Fprintf(out, "\n\n%d of %d targets missed.\n", missed, targets)
	default:
		fmt.Fprintf(out, "\n\nAll %d targets met.\n", targets)
	}
	if !r.sizes.smoke {
		fmt.Fprintf(out, "evidence: %d of %d targets met\n", targets-missed, targets) // make bench writes it to docs/evidence.yaml
	}
	return nil
}

func (r *report) header() string {
	gc := os.Getenv("GOGC")
	if gc == "" {
		gc = "100"
	}
	medians := ""
	if r.sizes.repeats > 0 {
		medians = fmt.Sprintf("medians of %d, ", r.sizes.repeats)
	}
	return fmt.Sprintf("%d cores, GOMAXPROCS %d, %s %s/%s, GOGC %s, commit %s, %son a control plane means of %d",
		runtime.NumCPU(), runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS, runtime.GOARCH, gc, commit(), medians, r.sizes.live.rounds)
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// write stores the rows as JSON.
func (r *report) write(file string) error {
	for i := range r.rows {
		for _, f := range []*float64{&r.rows[i].Ours, &r.rows[i].Peer, &r.rows[i].Ratio} {
			if math.IsNaN(*f) || math.IsInf(*f, 0) {
				*f = 0 // JSON has no such number
			}
		}
	}
	data, err := json.MarshalIndent(r.rows, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// number formats a figure with three significant digits.
func number(f float64) string {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "-"
	case f == 0 || math.Abs(f) >= 100:
		return thousands(strconv.FormatFloat(f, 'f', 0, 64))
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(f)))))
	text := strconv.FormatFloat(f, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// thousands inserts commas into a whole number.
func thousands(s string) string {
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
