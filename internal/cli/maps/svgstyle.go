// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"fmt"
	"strings"
)

// svgStyle declares every colour as a class, for light and for dark mode. Programs that do not support media queries use the light colours.
func svgStyle() string {
	var light, dark strings.Builder
	for _, t := range palette {
		class(&light, t.name, t.light)
		class(&dark, t.name, t.dark)
	}
	return "<style>\n" +
		"text{font:12px system-ui,-apple-system,'Segoe " +
		"UI',Roboto,sans-serif}.b{font-weight:600}.small{font-size:10px}.sum{font-size:11px;text-anchor:end}\n" +
		".label{font:10px " +
		"ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}.frame{fill:none}.grid{fill:none;stroke-width:.8}.b0,.b1{stroke-width:1}\n" +
		light.String() + "@media(prefers-color-scheme:dark){\n" + dark.String() + "}\n</style>\n"
}

// class writes the rules that use a colour.
func class(b *strings.Builder, name, colour string) {
	switch name {
	case "line":
		fmt.Fprintf(b, ".b0,.b1{stroke:%s}\n", colour)
	case "strong":
		fmt.Fprintf(b, ".frame,.hatch,.more{stroke:%s}\n", colour)
	case "grid":
		fmt.Fprintf(b, ".grid{stroke:%s}\n", colour)
	case "box":
		fmt.Fprintf(b, "rect.b0{fill:%s}\n", colour)
	case "inner":
		fmt.Fprintf(b, "rect.b1{fill:%s}\n", colour)
	case "text":
		fmt.Fprintf(b, "text{fill:%s}\n", colour)
	case "soft":
		fmt.Fprintf(b, ".sum,.label{fill:%s}\n", colour)
	case "bad":
		fmt.Fprintf(b, "text.bad{fill:%s}.lost,.over{stroke:%s}.over{stroke-width:2}\n", colour, colour)
	default:
		if !strings.HasPrefix(name, "heat") {
			fmt.Fprintf(b, ".%s{fill:%s}\n", name, colour)
		}
	}
}

// svgPatterns are drawn over hosts that take no pods, planned pods, and graphs beyond the number of colours.
const svgPatterns = `<defs>
<pattern id="out" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0v5" stroke-width="2.5"/></pattern>
<pattern id="lost" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="lost" d="M0 0v5" stroke-width="2.5"/></pattern>
<pattern id="plan" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><path stroke="#fff" d="M0 0v5" stroke-width="5" opacity=".75"/></pattern>
<pattern id="look1" width="5" height="5" patternUnits="userSpaceOnUse"><path stroke="#000" d="M1 0v5" stroke-width="2" opacity=".4"/></pattern>
<pattern id="look2" width="5" height="5" patternUnits="userSpaceOnUse"><circle cx="2.5" cy="2.5" r="1.1" opacity=".6"/></pattern>
</defs>
`
