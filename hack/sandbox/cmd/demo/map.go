// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
)

// cordoned are the hosts that the demo cordons.
var cordoned = []string{"zone-1-block-1-rack-1-host-1", "zone-1-block-1-rack-2-host-2"}

// applyNeighbours uses up some capacity, so that few racks are completely free.
func (d *demo) applyNeighbours(ctx context.Context) error {
	d.stage.say("Another team trains on four hosts, and two hosts are cordoned. Trellis counts what is left.")
	if err := d.run(ctx, "apply", "-f", neighboursFile); err != nil {
		return err
	}
	if err := d.run(ctx, append([]string{"cordon"}, cordoned...)...); err != nil {
		return err
	}
	d.sum("pods of others and cordoned hosts, which are counted")
	return d.run(ctx, "-n", "research", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=1m")
}

// mapPage and mapImage are the files of the map, which the demo draws while replicas are pending. docs/map.svg shows the same map.
const mapPage, mapImage = "bin/demo-map.html", "bin/demo-map.svg"

// drawMap draws the cluster as an HTML page, and as an SVG image with a plan on it.
func (d *demo) drawMap(ctx context.Context) error {
	fmt.Fprintln(d.stage)
	d.stage.say("The whole cluster, as a page for a browser, and as an image with a plan laid over it:")
	if err := d.write(ctx, mapPage, "trellis", "map"); err != nil {
		return err
	}
	if err := d.write(ctx, mapImage, "trellis", "map", "-f", whatifFile, "-o", "svg"); err != nil {
		return err
	}
	d.sum("the cluster as a map: open %s in a browser", mapPage)
	return nil
}
