// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// TestDemo plays the demo. What it says fits 100 columns, and the image that it draws is the one in the README.
func TestDemo(t *testing.T) {
	tier.All(t)
	var said strings.Builder
	s := &stage{Writer: &said, progress: progress.Lines(&said, time.Now)}
	if code := run(t.Context(), s, fmt.Sprintf("demo-%d", os.Getpid()), false); code != 0 {
		t.Fatalf("exit code %d\n%s", code, &said)
	}
	for line := range strings.Lines(said.String()) {
		if width := len([]rune(line)) - 1; width > 100 {
			t.Errorf("%d characters: %s", width, line)
		}
	}
	if want := "No process and no file of it is left."; !strings.Contains(said.String(), want) {
		t.Errorf("the demo does not say %q:\n%s", want, &said)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("../../../..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if diff := cmp.Diff(image(read("docs/map.svg")), image(read(mapImage))); diff != "" {
		t.Errorf("docs/map.svg (-) and the demo's image (+):\n%s", diff)
	}
}

// drawing is an image without what the kube-scheduler decides: which host each pod is on, within its domain if it has one. Racks have a place for as
// many pods without GPUs as one host has at most, so that all of them and their cells are wider or narrower by that; titles have the amounts.
type drawing struct {
	// Fixed are boxes and texts in their order. Pods is what is drawn somewhere.
	Fixed, Pods []string
}

var (
	fixed  = regexp.MustCompile(`^<(text|rect class="(b\d|page))`)
	across = regexp.MustCompile(` (x|width)="\d+"`)
	place  = regexp.MustCompile(` (c?[xy]|width)="\d+"| d="[^"]*"`)
)

func image(svg string) drawing {
	var out drawing
	for line := range strings.Lines(svg) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "<svg "): // its size
		case fixed.MatchString(line):
			out.Fixed = append(out.Fixed, across.ReplaceAllString(line, ""))
		default:
			out.Pods = append(out.Pods, place.ReplaceAllString(line, ""))
		}
	}
	slices.Sort(out.Pods)
	return out
}

func TestImage(t *testing.T) {
	const box, pod = `<rect class="b1" x="1" y="2"/>`, "<g><title>8 GPUs</title>\n<rect class=\"c0\" x=\"1\" y=\"2\" width=\"8\"/>"
	svg := box + "\n" + pod + "\n"
	if diff := cmp.Diff(image(svg), image(strings.ReplaceAll(svg, `c0" x="1"`, `c0" x="9"`))); diff != "" {
		t.Errorf("a pod on another host:\n%s", diff)
	}
	for what, other := range map[string]string{"a box moved down": strings.Replace(svg, `y="2"`, `y="9"`, 1), "a larger pod": strings.Replace(svg, `8 GPUs`, `9 GPUs`, 1)} {
		if cmp.Equal(image(svg), image(other)) {
			t.Errorf("%s is not seen", what)
		}
	}
}
