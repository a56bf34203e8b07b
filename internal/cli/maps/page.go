// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page
var parts embed.FS

// scripts of the page, joined in this order.
var scripts = []string{"model.js", "layout.js", "draw.js", "tip.js", "links.js", "panel.js", "search.js", "keys.js", "main.js"}

// styles of the page, after the colours.
var styles = []string{"style.css", "boxes.css"}

// HTML writes the page: one file that needs no network access and forbids it with its Content-Security-Policy.
func (m *Map) HTML(w io.Writer) error {
	data, err := json.Marshal(m) // escapes <, > and &, so that nothing in the data ends its element
	if err != nil {
		return err
	}
	script, err := joinParts(scripts)
	if err != nil {
		return err
	}
	style, err := joinParts(styles)
	if err != nil {
		return err
	}
	style = paletteCSS() + style
	page, err := template.ParseFS(parts, "page/page.html")
	if err != nil {
		return err
	}
	return page.Execute(w, map[string]any{
		"Policy": policy(style, script, m.Live),
		"Style":  template.CSS(style), "Script": template.JS(script), //nolint:gosec // both are files of this package
		"Data": template.JS(data), //nolint:gosec // escaped by the encoder, and never run: the element is of a type that is not a script
	})
}

// policy returns the Content-Security-Policy. It allows only this script and this style, and no network requests. A served page may also
// connect to its server, to receive changes of the map.
func policy(style, script string, live bool) string {
	connect := "'none'"
	if live {
		connect = "'self'"
	}
	return fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; connect-src %s; base-uri 'none'; form-action 'none'", hash(script),
		hash(style), connect)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// joinParts joins files of the page, without the comment at the beginning of each.
func joinParts(names []string) (string, error) {
	var b strings.Builder
	for _, name := range names {
		data, err := parts.ReadFile("page/" + name)
		if err != nil {
			return "", err
		}
		if _, body, found := bytes.Cut(data, []byte("*/\n")); found {
			data = body
		}
		b.Write(data)
	}
	return b.String(), nil
}
