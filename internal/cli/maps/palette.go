// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"fmt"
	"strings"
)

// tone is a colour with its name in the style sheets, for light and dark mode.
type tone struct{ name, light, dark string }

// graphTones is the number of colours for graphs; further graphs have the same colours with stripes, and then with dots.
const graphTones = 10

// palette contains the colours of the page and the SVG. Neighbouring colours of graphs also differ in lightness, for readers who cannot
// tell red from green.
var palette = []tone{
	{"page", "#f6f7f9", "#11151b"}, {"box", "#ffffff", "#181e26"}, {"inner", "#f1f3f6", "#1f2731"},
	{"line", "#cfd5dd", "#36414e"}, {"strong", "#8c96a3", "#66758a"}, {"text", "#1b2430", "#e6ebf1"}, {"soft", "#566373", "#9dabba"},
	{"free", "#ffffff", "#12171d"}, {"grid", "#d3d9e0", "#36414e"}, {"other", "#a9b1bb", "#687482"}, {"bad", "#c6303e", "#ff6b76"},
	{"heat1", "#fdf0d5", "#3a3121"}, {"heat2", "#fbdca3", "#56431f"}, {"heat3", "#f6bf73", "#78571c"}, {"heat4", "#ec9a4e", "#9d6a17"},
	{"c0", "#2f6fd6", "#5b96f5"}, {"c1", "#e07b1a", "#f29b4b"}, {"c2", "#1f9a68", "#3fbf8b"}, {"c3", "#b4479d", "#d676c1"},
	{"c4", "#c7a008", "#e0bf3c"}, {"c5", "#17a2b4", "#45c4d5"}, {"c6", "#7759d0", "#9d86ee"}, {"c7", "#8c6a3c", "#b8935f"},
	{"c8", "#6c8f1f", "#9abb4a"}, {"c9", "#d7709c", "#ee96bb"},
}

// paletteCSS declares the colours as CSS variables. The page has the mode (light or dark) that the reader chooses on it, or else the mode
// of the operating system.
func paletteCSS() string {
	var light, dark strings.Builder
	for _, t := range palette {
		fmt.Fprintf(&light, "--%s:%s;", t.name, t.light)
		fmt.Fprintf(&dark, "--%s:%s;", t.name, t.dark)
	}
	return fmt.Sprintf(":root{color-scheme:light;%s}\n@media(prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;%s}}\n"+
		":root[data-theme=dark]{color-scheme:dark;%s}\n", &light, &dark, &dark)
}
