// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli/text"
)

type rack struct {
	Name string `json:"name"`
	Free int    `json:"free,omitempty"`
}

func (r rack) Refs() []Ref {
	return []Ref{{Kind: Graph.Name, Group: Graph.Group, Name: r.Name}, {Kind: Pod.Name, Name: "p"}}
}

func (r rack) Text(p text.Page) string {
	if p.Wide {
		return "a wide table"
	}
	return "a table"
}

// output is an Output for these arguments, checked.
func output(t *testing.T, args ...string) (*Output, *bytes.Buffer, error) {
	t.Helper()
	var out bytes.Buffer
	o := NewOutput(genericiooptions.IOStreams{Out: &out})
	cmd := &cobra.Command{}
	o.AddFlags(cmd, "")
	if err := cmd.Flags().Parse(args); err != nil {
		t.Fatal(err)
	}
	return &o, &out, o.Check()
}

func TestOutput(t *testing.T) {
	report := rack{Name: "rack-0", Free: 8}
	for format, want := range map[string]struct{ shown, streamed, err string }{
		"":                                   {shown: "a table"},
		"text":                               {shown: "a table"},
		"wide":                               {shown: "a wide table"},
		"json":                               {shown: "{\n    \"name\": \"rack-0\",\n    \"free\": 8\n}\n", streamed: "{\"name\":\"rack-0\",\"free\":8}\n{\"name\":\"rack-0\",\"free\":8}\n"},
		"yaml":                               {shown: "free: 8\nname: rack-0\n", streamed: "free: 8\nname: rack-0\n---\nfree: 8\nname: rack-0\n"},
		"jsonpath={.name} has {.free}":       {shown: "rack-0 has 8", streamed: "rack-0 has 8rack-0 has 8"},
		"go-template={{.name}}/{{.free}}":    {shown: "rack-0/8", streamed: "rack-0/8rack-0/8"},
		"name":                               {shown: "dynamographdeployment.nvidia.com/rack-0\npod/p\n"},
		"xml":                                {err: "-o xml: want one of go-template, "},
		"kyaml":                              {err: "-o kyaml: want one of"},
		"jsonpath={.name":                    {err: "-o jsonpath={.name: "},
		"jsonpath":                           {err: "-o jsonpath: "},
		"jsonpath-file=/no/such/file/is.txt": {err: "no such file"},
	} {
		t.Run(format, func(t *testing.T) {
			o, out, err := output(t, "-o", format)
			if want.err != "" || err != nil {
				if err == nil || !strings.Contains(err.Error(), want.err) || want.err == "" {
					t.Fatalf("error %v, want %q", err, want.err)
				}
				return
			}
			if err := o.Show(report); err != nil || out.String() != want.shown {
				t.Errorf("shown %q (%v), want %q", out.String(), err, want.shown)
			}
			if o, out, _ = output(t, "-o", format); !o.ForPrograms() || want.streamed == "" {
				return
			}
			for range 2 {
				if err := o.ShowNext(report); err != nil {
					t.Error(err)
				}
			}
			if out.String() != want.streamed {
				t.Errorf("streamed %q, want %q", out.String(), want.streamed)
			}
		})
	}
}
