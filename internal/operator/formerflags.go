// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"
)

// formerNames maps former flag names, which are accepted for one minor version, to the current names.
var formerNames = map[string]string{
	"engine":            "provider",
	"take-back-after":   "requeue-after",
	"keep-domain-after": "reserve-domain-after",
	"keep-domain-for":   "reserve-domain-for",
	"keep-share":        "reserve-share",
}

// formerFlag is a flag under its former name. It sets the current flag, unless the current flag is given as well.
type formerFlag struct {
	name    string
	current *pflag.Flag
	// read is the value given under the former name, as the current flag prints it; "" for none.
	read string
}

// addFormer adds the former names as deprecated flags: --help does not list them, and the use of a former name prints the current name.
func (o *Options) addFormer(f *pflag.FlagSet) {
	for _, name := range slices.Sorted(maps.Keys(formerNames)) {
		current := formerNames[name]
		former := &formerFlag{name: name, current: f.Lookup(current)}
		f.Var(former, name, former.current.Usage)
		if err := f.MarkDeprecated(name, "use --"+current); err != nil {
			panic(err) // it was added above
		}
		o.former = append(o.former, former)
	}
}

func (f *formerFlag) Type() string   { return f.current.Value.Type() }
func (f *formerFlag) String() string { return f.read }

func (f *formerFlag) Set(text string) error {
	before := f.current.Value.String()
	if err := f.current.Value.Set(text); err != nil {
		return err
	}
	f.read = f.current.Value.String()
	if f.current.Changed {
		return f.current.Value.Set(before)
	}
	return nil
}

// check returns an error if the former and the current name have different values.
func (f *formerFlag) check() error {
	if now := f.current.Value.String(); f.read != "" && f.read != now {
		return fmt.Errorf("--%s=%s: the former name of --%s, which is set to %s; remove --%s", f.name, f.read, f.current.Name, now, f.name)
	}
	return nil
}
