// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package maps is kubectl trellis map: it draws the whole cluster as nested boxes.
//
// The command reads a [Source] from a cluster and from files, [Build] makes a [Map] from it, and [Map.HTML] and [Map.SVG] draw the map.
// Build and the drawing are pure. Build repeats no computation of other commands: domains, amounts and pods come from package tree, reasons
// for waiting from package explain, and planned placements from package plan. So map, tree, explain and plan show the same numbers.
//
// The page is one file. Its data is one JSON blob; its script creates every element with createElement and textContent,
// never from markup, so that no name in a cluster can become code. A Content-Security-Policy with the hashes of script and
// style blocks everything else.
//
// The browser lays out the boxes as plain elements with flex and grid, without a library. CSS suits nested boxes of text, a treemap library
// would only compute positions, and the script stays below 30 kB. Consecutive GPUs of one pod are one element, on which lines are drawn. So
// a page with 2,000 hosts of 8 GPUs has a few thousand elements, and opens in well under a second.
//
// The SVG is drawn in Go without a browser; the same map gives the same bytes.
package maps
