// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"testing"
)

// screens are the windows of a screen on a wall, and of a laptop.
var screens = map[string]look{"1600x1000": {1600, 1000, false}, "1600x1000-dark": {1600, 1000, true}, "1280x800": {1280, 800, false}}

// TestWallShots keeps pictures of the clusters for a wall.
func TestWallShots(t *testing.T) {
	browser := start(t)
	for _, hosts := range []int{64, 400, 2000} {
		_, m := build(t, fmt.Sprintf("wall-%d", hosts))
		url := write(t, m)
		for window, l := range screens {
			p := open(t, browser, url, l)
			p.shot(fmt.Sprintf("wall-%d-%s", hosts, window))
		}
	}
}
