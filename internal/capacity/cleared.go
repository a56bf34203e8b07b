// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"maps"
	"sync"
)

// cleared are the placeholders that were deleted before a release, by name, with their ask: they are not lost. It has a lock, since
// releases do not wait for a plan.
type cleared struct {
	mu   sync.Mutex
	asks map[string]string
}

// Cleared notes that a placeholder of an ask was deleted before a release.
func (c *cleared) Cleared(ask, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks == nil {
		c.asks = map[string]string{}
	}
	c.asks[name] = ask
}

// lost counts the placeholders that are created again and were not deleted for a release.
func (c *cleared) lost(ask string, missing []Index) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range missing {
		if name := at.name(ask); c.asks[name] == "" {
			n++
		} else {
			delete(c.asks, name)
		}
	}
	return n
}

// forget drops what is noted of asks that do not stand any more.
func (c *cleared) forget(waiting map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.asks, func(_, ask string) bool { return !waiting[ask] })
}
