// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops runs health checks like Argo CD: a Lua script gets an object as the global obj, and returns a table with status and
// message.
package gitops

import (
	"errors"
	"fmt"

	lua "github.com/yuin/gopher-lua"
)

// Health is the result of a check.
type Health struct{ Status, Message string }

// Check runs a script on an object. The script can use only the libraries base and table, as in Argo CD.
func Check(script string, object map[string]any) (Health, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable},
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			return Health{}, fmt.Errorf("opening the library %q: %w", library.name, err)
		}
	}
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		return Health{}, fmt.Errorf("running the script: %w", err)
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return Health{}, errors.New("the script returns no table")
	}
	status, isText := table.RawGetString("status").(lua.LString)
	message, isMessage := table.RawGetString("message").(lua.LString)
	if !isText || !isMessage {
		return Health{}, errors.New("the script returns no status, or no message")
	}
	return Health{Status: string(status), Message: string(message)}, nil
}

// value converts a decoded JSON value to a value of Lua.
func value(state *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, one := range of {
			table.RawSetString(key, value(state, one))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, one := range of {
			table.Append(value(state, one))
		}
		return table
	case string:
		return lua.LString(of)
	case bool:
		return lua.LBool(of)
	case float64:
		return lua.LNumber(of)
	default:
		return lua.LNil
	}
}
