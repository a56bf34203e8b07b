// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// A flag is read under its former name, with a line that names the current one. Both with different values are refused.
func TestFormerFlags(t *testing.T) {
	for args, want := range map[string]struct {
		as      func(Options) bool
		refusal string
	}{
		"--keep-domain-after=5m": {as: func(o Options) bool { return o.ReserveDomainAfter == 5*time.Minute }},
		"--keep-domain-for=1h":   {as: func(o Options) bool { return o.ReserveDomainFor == time.Hour }},
		"--keep-share=0.5":       {as: func(o Options) bool { return o.ReserveShare == 0.5 }},
		"--engine=KAI":           {as: func(o Options) bool { return o.Provider == "KAI" }},
		"--take-back-after=45s":  {as: func(o Options) bool { return o.RequeueAfter == 45*time.Second }},

		"--keep-domain-after=5m --reserve-domain-after=300s": {as: func(o Options) bool { return o.ReserveDomainAfter == 5*time.Minute }},
		"--reserve-domain-after=300s --keep-domain-after=5m": {as: func(o Options) bool { return o.ReserveDomainAfter == 5*time.Minute }},
		"--keep-domain-after=5m --reserve-domain-after=6m": {
			refusal: "--keep-domain-after=5m0s: the former name of --reserve-domain-after, which is set to 6m0s; remove --keep-domain-after",
		},
		"--reserve-share=0.2 --keep-share=0.5": {refusal: "--keep-share=0.5: the former name of --reserve-share, which is set to 0.2; remove --keep-share"},
		"--engine=KAI --provider=Grove":        {refusal: "--engine=KAI: the former name of --provider, which is set to Grove; remove --engine"},
		"--keep-domain-for=-1s":                {refusal: "--reserve-domain-for must be positive"},
	} {
		t.Run(args, func(t *testing.T) {
			o, flags, said := Options{}, pflag.NewFlagSet("", pflag.ContinueOnError), &strings.Builder{}
			o.AddFlags(flags)
			flags.SetOutput(said)
			if err := flags.Parse(append(strings.Fields(args), "--namespace=x")); err != nil {
				t.Fatal(err)
			}
			for former, current := range formerNames {
				line := "Flag --" + former + " has been deprecated, use --" + current + "\n"
				if given := strings.Contains(args, "--"+former+"="); given != strings.Contains(said.String(), line) {
					t.Errorf("printed %q, want %q: %t", said, line, given)
				}
			}
			err := o.Complete()
			if want.refusal != "" && (err == nil || !strings.Contains(err.Error(), want.refusal)) {
				t.Errorf("%v, want %q", err, want.refusal)
			}
			if want.refusal == "" && (err != nil || !want.as(o)) {
				t.Errorf("not read: %v, %+v", err, o)
			}
		})
	}
}

// A value that the current flag refuses is refused under the former name.
func TestFormerFlagsAreParsed(t *testing.T) {
	o, flags := Options{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse([]string{"--keep-share=half"}); err == nil || !strings.Contains(err.Error(), "--keep-share") {
		t.Errorf("%v, want a refusal of --keep-share", err)
	}
}
