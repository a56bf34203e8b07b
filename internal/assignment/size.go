// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import "encoding/json"

// MaxBytes is the maximum size of a GraphPlacement, as JSON without metadata. The API server accepts objects of 1.5 MiB.
const MaxBytes = 1<<20 - 32<<10

// The maximum sizes in bytes of the parts of a record as JSON, without names and messages.
const (
	// frameBytes is the size of an empty record.
	frameBytes  = 512
	gangBytes   = len(`{"name":"","state":"Assigned","since":"2006-01-02T15:04:05Z","base":true,"message":"","components":[]},`)
	placeBytes  = len(`{"component":"","places":[{"replicas":"131071","attempt":2147483647,"domain":131071,"neverBound":true,"hosts":[]}]},`)
	domainBytes = len(`{"name":"","in":131071},`)
	hostBytes   = len(`"",131071,`)
)

// Room returns the remaining space of the record, in bytes.
func (r *Record) Room() int {
	most := frameBytes + len(r.Domain.String())
	for name, g := range r.Gangs {
		most += gangBytes + len(name) + len(g.Message)
		for key, p := range g.Places {
			most += p.bytes(key)
		}
	}
	for _, list := range []map[Key]Place{r.Bound, r.Former} {
		for key, p := range list {
			most += p.bytes(key)
		}
	}
	for i := range r.Refused {
		most += r.Refused[i].bytes()
	}
	most += r.Freed.bytes()
	if most < MaxBytes/2 {
		return MaxBytes - most
	}
	spec := r.Encode("")
	raw, err := json.Marshal(&spec)
	if err != nil {
		return 0
	}
	return MaxBytes - frameBytes - len(raw)
}

// Bytes returns the maximum size of a recorded gang as JSON.
func (g *Gang) Bytes(name string) int {
	most := gangBytes + len(name) + len(g.Message)
	for key, p := range g.Places {
		most += p.bytes(key)
	}
	return most
}

// bytes returns the maximum size of a recorded place as JSON.
func (p Place) bytes(key Key) int {
	most := placeBytes + len(key.Component)
	for _, name := range p.Domain {
		most += domainBytes + len(name)
	}
	for _, host := range p.Hosts {
		most += hostBytes + len(host)
	}
	return most
}
