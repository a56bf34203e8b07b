// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

// made are the worlds that are drawn.
var made = map[string]func() (*worlds.Builder, error){
	"8": worlds.Small, "64": worlds.Medium, "2000": worlds.Large, "demo": func() (*worlds.Builder, error) { return worlds.Demo(root) },
}

func build(t *testing.T, name string) (*worlds.Builder, *maps.Map) {
	t.Helper()
	b, err := made[name]()
	if err != nil {
		t.Fatal(err)
	}
	source := maps.SourceOf(b.World)
	source.Taken = worlds.Began.Add(90 * time.Minute)
	m, err := maps.Build(source, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return b, m
}

// TestShots keeps pictures of every size, width and theme.
func TestShots(t *testing.T) {
	browser := start(t)
	for name := range made {
		_, m := build(t, name)
		url := write(t, m)
		for _, width := range []int64{1280, 800} {
			for _, dark := range []bool{false, true} {
				theme := "light"
				if dark {
					theme = "dark"
				}
				t.Run(fmt.Sprintf("%s/%d/%s", name, width, theme), func(t *testing.T) {
					p := open(t, browser, url, look{width, 900, dark})
					p.shot(fmt.Sprintf("map-%s-%d-%s", name, width, theme))
				})
			}
		}
	}
}
