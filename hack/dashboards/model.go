// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
)

// Board is the used part of Grafana's dashboard model.
type Board struct {
	UID           string         `json:"uid"`
	Title         string         `json:"title"`
	Description   string         `json:"description"`
	Tags          []string       `json:"tags"`
	SchemaVersion int            `json:"schemaVersion"`
	Editable      bool           `json:"editable"`
	GraphTooltip  int            `json:"graphTooltip"`
	Refresh       string         `json:"refresh"`
	Time          map[string]any `json:"time"`
	Templating    struct {
		List []Variable `json:"list"`
	} `json:"templating"`
	Panels []Panel `json:"panels"`
}

// Variable is a selection at the top of the dashboard.
type Variable struct {
	Name       string         `json:"name"`
	Label      string         `json:"label"`
	Type       string         `json:"type"`
	Query      any            `json:"query"`
	Definition string         `json:"definition,omitempty"`
	Datasource *Source        `json:"datasource,omitempty"`
	Refresh    int            `json:"refresh,omitempty"`
	Sort       int            `json:"sort,omitempty"`
	Multi      bool           `json:"multi"`
	IncludeAll bool           `json:"includeAll"`
	Current    map[string]any `json:"current"`
}

// Source is a data source.
type Source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a row, or a chart in a row.
type Panel struct {
	ID          int            `json:"id"`
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	Repeat      string         `json:"repeat,omitempty"`
	Collapsed   *bool          `json:"collapsed,omitempty"`
	GridPos     Place          `json:"gridPos"`
	Datasource  *Source        `json:"datasource,omitempty"`
	Targets     []Target       `json:"targets,omitempty"`
	FieldConfig *FieldConfig   `json:"fieldConfig,omitempty"`
	Options     map[string]any `json:"options,omitempty"`
	Panels      []Panel        `json:"panels,omitempty"`
}

// Place is the position and size of a panel, in 24 columns and in rows.
type Place struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is one query.
type Target struct {
	RefID        string  `json:"refId"`
	Expr         string  `json:"expr"`
	LegendFormat string  `json:"legendFormat,omitempty"`
	Datasource   *Source `json:"datasource"`
	Instant      bool    `json:"instant,omitempty"`
	Format       string  `json:"format,omitempty"`
}

// FieldConfig is the display of values.
type FieldConfig struct {
	Defaults  Defaults `json:"defaults"`
	Overrides []any    `json:"overrides"`
}

// Defaults apply to all values of a panel.
type Defaults struct {
	Unit       string         `json:"unit,omitempty"`
	Min        *float64       `json:"min,omitempty"`
	Max        *float64       `json:"max,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
	Thresholds map[string]any `json:"thresholds,omitempty"`
}

// JSON returns the file for Grafana's import.
func (b *Board) JSON() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // expressions contain < and >
	encoder.SetIndent("", "  ")
	err := encoder.Encode(b)
	return out.Bytes(), err
}

// layout places panels one after the other, and assigns their IDs.
type layout struct {
	panels []Panel
	x, y   int
	height int
}

const columns = 24

// row begins a new row; repeat names the variable whose values repeat the row.
func (l *layout) row(title, repeat string) {
	open := false
	l.x, l.y, l.height = 0, l.y+l.height, 1
	l.panels = append(l.panels, Panel{ID: len(l.panels) + 1, Type: "row", Title: title, Repeat: repeat, Collapsed: &open, GridPos: Place{H: 1,
		W: columns, Y: l.y}})
	l.y, l.height = l.y+1, 0
}

func (l *layout) add(p Panel, width, height int) {
	if l.x+width > columns {
		l.x, l.y, l.height = 0, l.y+l.height, 0
	}
	p.ID, p.GridPos, p.Datasource = len(l.panels)+1, Place{H: height, W: width, X: l.x, Y: l.y}, prometheus
	for i := range p.Targets {
		p.Targets[i].RefID, p.Targets[i].Datasource = string(rune('A'+i)), prometheus
	}
	l.panels = append(l.panels, p)
	l.x, l.height = l.x+width, max(l.height, height)
}
