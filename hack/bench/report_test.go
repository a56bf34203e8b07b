// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport checks the keys of bench.json, which readers rely on.
func TestReport(t *testing.T) {
	r := newReport(fullSizes)
	r.faster("a", "us", 2, 1_000, "peer", 500)
	r.faster("b", "us", 2, 999, "peer", 500)
	r.more("c", "GPUs", 90, 100, "peer", 0.9)
	r.atMost("d", "us", 3, 1, "1 node", 2)
	r.floor("e", "pods/s", 49_999, 0, "peer", 50_000)
	r.ceiling("f", "ms", 5, 10, "peer", 5)
	r.beside("g", "s", 1, 2, "peer")
	r.compare("h", "pods/s", 1, 2, "peer")
	file := filepath.Join(t.TempDir(), "bin", "bench.json")
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	for i, met := range []bool{true, false, true, false, false, true, true, true} {
		if rows[i]["met"] != met {
			t.Errorf("row %v: met = %v", rows[i]["name"], rows[i]["met"])
		}
	}
	for _, key := range []string{"name", "unit", "ours", "peer", "peerName", "ratio", "target", "met"} {
		if _, ok := rows[0][key]; !ok || len(rows[0]) != 8 {
			t.Errorf("key %s: %v", key, rows[0])
		}
	}
	for i, ratio := range map[int]float64{0: 500, 5: 2, 6: 2, 7: 0.5} {
		if rows[i]["ratio"] != ratio {
			t.Errorf("ratio of row %v: %v, want %v", rows[i]["name"], rows[i]["ratio"], ratio)
		}
	}
	var out strings.Builder
	if err := r.print(&out); err != nil || !strings.Contains(out.String(), "3 of 6 targets missed") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestNumber(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 0.0123: "0.0123", 1.5: "1.5", 11.66: "11.7", 99.96: "100", 97: "97", 1234.5: "1,234", 323983: "323,983", 1234567: "1,234,567", 100: "100",
	} {
		if got := number(f); got != want {
			t.Errorf("number(%v) = %s, want %s", f, got, want)
		}
	}
}
