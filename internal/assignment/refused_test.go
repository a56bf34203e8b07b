// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Refused places are read as they were written. Of many the most frequent ones are written, and a record with them is within its size.
func TestRefusedPlaces(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC)
	r := (&Record{}).Clone()
	var all []Refused
	for i := range maxRefused + 3 {
		one := Refused{Shape: fmt.Sprintf("%016d", i%3), Message: strings.Repeat("\"", 2*MaxRefusedMessage), Times: i + 1, Last: at, Until: at.Add(time.Hour)}
		if one.Domain = (topology.Path{"z", "r"}); i%2 == 0 {
			one.Place.Host = fmt.Sprintf("host-%d", i)
		} else {
			one.Domain = append(one.Domain, fmt.Sprint(i))
			one.Place.Labels = map[string]string{"z": "z", "r": fmt.Sprint(i)}
		}
		all = append(all, one)
	}
	r.SetRefused(all)
	if len(r.Refused) != maxRefused {
		t.Fatalf("%d places are recorded, want %d", len(r.Refused), maxRefused)
	}
	for _, one := range r.Refused {
		if one.Times <= 3 {
			t.Errorf("a place that was refused %d times is recorded, and a more frequent one is not", one.Times)
		}
	}
	spec := r.Encode("1")
	raw, err := json.Marshal(&spec)
	if err != nil {
		t.Fatal(err)
	}
	if room := r.Room(); MaxBytes-room < len(raw) {
		t.Errorf("%d bytes are counted, the object has %d", MaxBytes-room, len(raw))
	}
	again := Decode(&spec)
	if diff := cmp.Diff(r.Refused, again.Refused, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	if !again.Equal(r) {
		t.Error("the records differ")
	}
	again.Refused[0].Until = again.Refused[0].Until.Add(time.Minute)
	if !again.Equal(r) {
		t.Error("an earlier end alone has the record written")
	}
	again.Refused[0].Times++
	if again.Equal(r) {
		t.Error("a further refusal does not have the record written")
	}
}

// Entries without exactly one of a host and node labels are skipped.
func TestInvalidRefusedPlaces(t *testing.T) {
	labels := map[string]string{"r": "a"}
	many := map[string]string{}
	for i := range maxRefusedLabels + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	spec := trellisv1alpha1.GraphPlacementSpec{Refused: []trellisv1alpha1.RefusedPlace{
		{Shape: "s"}, {Shape: "s", Host: "h", NodeLabels: labels}, {Shape: "s", NodeLabels: many}, {Shape: "s", Host: "h", Times: -1},
	}}
	got := Decode(&spec).Refused
	if len(got) != 1 || got[0].Place.Host != "h" || got[0].Times != 1 {
		t.Errorf("read %+v", got)
	}
}
