// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDocumentation: all text of the map in the documentation is within its width, and the map uses that width.
func TestDocumentation(t *testing.T) {
	path, err := filepath.Abs(root + "/docs/map.svg")
	if err != nil {
		t.Fatal(err)
	}
	browser := start(t)
	for name, dark := range map[string]bool{"docs-light": false, "docs-dark": true} {
		p := open(t, browser, "file://"+path, look{1000, 460, dark})
		p.run(chromedp.WaitReady("svg", chromedp.ByQuery))
		want(p, "texts that leave the image", `[...document.querySelectorAll('text')].filter((e) => {
			const b = e.getBBox(), all = document.documentElement.viewBox.baseVal;
			return b.x < 0 || b.x + b.width > all.width || b.y < 0 || b.y + b.height > all.height;
		}).map((e) => e.textContent)`, []string{})
		if part := js[float64](p, `Math.max(...[...document.querySelectorAll('text.t')].map((e) => e.getBBox().width)) / document.documentElement.viewBox.baseVal.width`); part < 0.8 {
			t.Errorf("the longest line takes %.0f%% of the width", 100*part)
		}
		want(p, "dots in the legend, and on the map", `['circle:not(:has(title))', 'circle title'].map((s) => document.querySelectorAll(s).length > 0)`, []bool{true, true})
		want(p, "texts over one another", `(() => {
			const list = [...document.querySelectorAll('text')].map((e) => ({ text: e.textContent, b: e.getBBox() })), out = [];
			list.forEach((p, i) => list.slice(0, i).forEach((q) => {
				if (p.b.x + 1 < q.b.x + q.b.width && q.b.x + 1 < p.b.x + p.b.width && p.b.y + 3 < q.b.y + q.b.height && q.b.y + 3 < p.b.y + p.b.height) out.push(q.text + ' | ' + p.text);
			}));
			return out;
		})()`, []string{})
		p.shot(name)
	}
}
