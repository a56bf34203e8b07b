// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	// maxRefused is the maximum number of recorded refused places. The most frequently refused places are kept.
	maxRefused = 64
	// MaxRefusedMessage is the maximum length of a scheduler's message, in bytes.
	MaxRefusedMessage = 256
	// maxRefusedLabels is the maximum number of labels of a refused domain: one for each level.
	maxRefusedLabels = 16
)

// Refused is a place where a scheduler refused pods of the graph.
type Refused struct {
	// Shape is the [topology.Shape.Digest] of the pods.
	Shape string
	Place topology.Refused
	// Domain is the refused domain, or the narrowest domain of a refused host.
	Domain  topology.Path
	Message string
	// Times counts the successive refusals. Last is the time of the last refusal. Plans exclude the place until Until. Last and Until are
	// in whole seconds.
	Times       int
	Last, Until time.Time
}

// Name returns the name of the place in messages.
func (r *Refused) Name() string {
	if r.Place.Host != "" {
		return "host " + r.Place.Host
	}
	return r.Domain.String()
}

// Overlaps reports whether two refused places overlap: they are equal, or one contains the other.
func (r *Refused) Overlaps(other *Refused) bool {
	switch {
	case r.Place.Equal(other.Place):
		return true
	case r.Place.Host != "" && other.Place.Host != "" || len(r.Domain) == 0 || len(other.Domain) == 0:
		return false
	}
	return other.Place.Host == "" && other.Domain.Contains(r.Domain) || r.Place.Host == "" && r.Domain.Contains(other.Domain)
}

// equal ignores Until, because a change of Until alone does not justify a write.
func (r Refused) equal(other Refused) bool {
	return r.Shape == other.Shape && r.Place.Equal(other.Place) && r.Times == other.Times && r.Last.Equal(other.Last)
}

// SetRefused replaces the refused places.
func (r *Record) SetRefused(all []Refused) {
	if len(all) > maxRefused {
		slices.SortStableFunc(all, func(a, b Refused) int { return cmp.Compare(b.Times, a.Times) })
		all = all[:maxRefused]
	}
	for i := range all {
		all[i].Last, all[i].Until = seconds(all[i].Last), seconds(all[i].Until)
		all[i].Message = limit.Text(all[i].Message, MaxRefusedMessage)
	}
	slices.SortFunc(all, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(a.Shape, b.Shape), cmp.Compare(a.Place.Host, b.Place.Host), cmp.Compare(a.Domain.String(), b.Domain.String()))
	})
	r.Refused = all
}

func writeRefused(all []Refused) (out []trellisv1alpha1.RefusedPlace) {
	for _, one := range all {
		out = append(out, trellisv1alpha1.RefusedPlace{
			Host: one.Place.Host, Domain: one.Domain.String(), NodeLabels: one.Place.Labels, Shape: one.Shape, Times: int32(one.Times),
			Last: metav1.NewTime(one.Last), Until: metav1.NewTime(one.Until), Message: one.Message,
		})
	}
	return out
}

func readRefused(all []trellisv1alpha1.RefusedPlace) (out []Refused) {
	for _, one := range all[:min(len(all), maxRefused)] {
		if (one.Host == "") == (len(one.NodeLabels) == 0) || len(one.NodeLabels) > maxRefusedLabels {
			continue
		}
		out = append(out, Refused{
			Shape: one.Shape, Place: topology.Refused{Host: one.Host, Labels: one.NodeLabels}, Domain: topology.ParsePath(one.Domain),
			Message: one.Message, Times: int(max(one.Times, 1)), Last: seconds(one.Last.Time), Until: seconds(one.Until.Time),
		})
	}
	return out
}

// refusedBytes is the maximum size in bytes of a refused place as JSON, without the host, the domain, the labels and the message.
const refusedBytes = len(`{"host":"","domain":"","nodeLabels":{},"shape":"0123456789abcdef","times":2147483647,` +
	`"last":"2006-01-02T15:04:05Z","until":"2006-01-02T15:04:05Z","message":""},`)

// bytes returns the maximum size of a refused place as JSON. JSON may escape each byte of a message as six bytes.
func (r Refused) bytes() int {
	most := refusedBytes + len(r.Place.Host) + len(r.Domain.String()) + 6*len(r.Message)
	for key, value := range r.Place.Labels {
		most += len(key) + len(value) + len(`"":"",`)
	}
	return most
}
