// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestOutput(t *testing.T) {
	report := struct {
		Name string `json:"name"`
		Free int    `json:"free,omitempty"`
	}{Name: "rack-0", Free: 8}
	for format, want := range map[string]struct{ shown, streamed, err string }{
		"text": {shown: "a table"},
		"json": {shown: "{\n  \"name\": \"rack-0\",\n  \"free\": 8\n}\n", streamed: "{\"name\":\"rack-0\",\"free\":8}\n"},
		"yaml": {shown: "free: 8\nname: rack-0\n", streamed: "---\nfree: 8\nname: rack-0\n"},
		"wide": {err: "-o wide: want text, json or yaml"},
	} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			o := NewOutput(genericiooptions.IOStreams{Out: &out})
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.AddFlags(flags, "")
			if err := flags.Parse([]string{"-o", format}); err != nil {
				t.Fatal(err)
			}
			if err := o.Check(); want.err != "" || err != nil {
				if err == nil || !strings.Contains(err.Error(), want.err) || want.err == "" {
					t.Fatalf("error %v, want %q", err, want.err)
				}
				return
			}
			if err := o.Show(report, func() string { return "a table" }); err != nil || out.String() != want.shown {
				t.Errorf("shown %q (%v), want %q", out.String(), err, want.shown)
			}
			if out.Reset(); !o.JSON() {
				return
			}
			if err := o.ShowNext(report); err != nil || out.String() != want.streamed {
				t.Errorf("streamed %q (%v), want %q", out.String(), err, want.streamed)
			}
		})
	}
}
