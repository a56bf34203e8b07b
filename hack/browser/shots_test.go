// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"io"
	"testing"
	"time"

	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

// made are the drawn worlds.
var made = map[string]func() (*worlds.Builder, error){
	"8": worlds.Small, "64": worlds.Medium, "96": worlds.TwoTopologies, "2000": worlds.Large, "demo": func() (*worlds.Builder, error) { return worlds.Demo(root) },
	"wall-64": wall(64), "wall-400": wall(400), "wall-2000": wall(2000),
}

func wall(hosts int) func() (*worlds.Builder, error) {
	return func() (*worlds.Builder, error) { return worlds.Wall(hosts) }
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

// looks are the windows and themes of screenshots.
var looks = map[string]look{
	"1400x900-light": {1400, 900, false}, "1400x900-dark": {1400, 900, true}, "400x800-light": {400, 800, false}, "400x800-dark": {400, 800, true},
}

// TestShots stores screenshots of every world in every window and theme, at first and with a selection.
func TestShots(t *testing.T) {
	browser := start(t)
	for name := range made {
		_, m := build(t, name)
		url := write(t, m)
		for window, l := range looks {
			t.Run(name+"/"+window, func(t *testing.T) {
				p := open(t, browser, url, l)
				p.shot("map-" + name + "-" + window)
				p.do(`pickWaiting(data.waiting.length - 1)`)
				p.shot("map-" + name + "-" + window + "-waiting")
				p.do(`pickWaiting(state.waiting); pickGraph(graphKey(data.graphs.find((g) => g.ready)))`)
				p.shot("map-" + name + "-" + window + "-graph")
				p.do(`pickGraph(state.graph); setHeat(true)`)
				p.shot("map-" + name + "-" + window + "-fragmentation")
			})
		}
	}
}
