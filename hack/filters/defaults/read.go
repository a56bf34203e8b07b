// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// defaults are the default plugins of a kube-scheduler, and the gates that it reads and that are on by default, sorted by name.
type defaults struct{ plugins, gates []string }

// read reads the defaults of a release from its source.
func read(dir string, minor int) (defaults, error) {
	on, err := gatesOn(filepath.Join(dir, "pkg/features"), minor)
	if err != nil {
		return defaults{}, err
	}
	used, err := gatesUsed(filepath.Join(dir, "pkg/scheduler"))
	if err != nil {
		return defaults{}, err
	}
	plugins, err := defaultPlugins(filepath.Join(dir, "pkg/scheduler/apis/config/v1/default_plugins.go"), on)
	if err != nil {
		return defaults{}, err
	}
	d := defaults{plugins: plugins}
	for name := range used {
		if _, known := on[name]; !known {
			return defaults{}, fmt.Errorf("the default of gate %s is not found", name)
		}
		if on[name] {
			d.gates = append(d.gates, name)
		}
	}
	slices.Sort(d.gates)
	return d, nil
}

// gatesOn returns the defaults of all gates: from a gate's only spec up to Kubernetes 1.30, or from its last spec up to the release.
func gatesOn(dir string, minor int) (map[string]bool, error) {
	on := map[string]bool{}
	return on, eachFile(dir, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			entry, is := n.(*ast.KeyValueExpr)
			if !is {
				return true
			}
			name, value := nameOf(entry.Key), specs(entry.Value)
			for _, spec := range value {
				if spec.has && spec.minor <= minor {
					on[name] = spec.on && spec.compatible < minor
				}
			}
			return len(value) == 0
		})
	})
}

// spec is one entry of a gate: the minor release from which it applies, and the default. By default a release is compatible with the
// previous one, so a gate with a later MinCompatibilityVersion stays off.
type spec struct {
	minor, compatible int
	on, has           bool
}

// specs reads the value of an entry in a map of gates; nil for any other value.
func specs(value ast.Expr) (list []spec) {
	lit, is := value.(*ast.CompositeLit)
	if !is {
		return nil
	}
	if one := specOf(lit); one.has {
		return []spec{one}
	}
	for _, element := range lit.Elts {
		if inner, is := element.(*ast.CompositeLit); is {
			if one := specOf(inner); one.has {
				list = append(list, one)
			}
		}
	}
	return list
}

func specOf(lit *ast.CompositeLit) (s spec) {
	for _, element := range lit.Elts {
		field, is := element.(*ast.KeyValueExpr)
		if !is {
			return spec{}
		}
		switch nameOf(field.Key) {
		case "Default":
			s.has, s.on = true, nameOf(field.Value) == "true"
		case "Version":
			s.minor = minorIn(field.Value)
		case "MinCompatibilityVersion":
			s.compatible = minorIn(field.Value)
		}
	}
	return s
}

// minorIn returns the minor release in version.MustParse("1.37"); 0 for any other expression.
func minorIn(e ast.Expr) (minor int) {
	call, is := e.(*ast.CallExpr)
	if !is || len(call.Args) != 1 {
		return 0
	}
	if text, is := call.Args[0].(*ast.BasicLit); is {
		_, after, _ := strings.Cut(strings.Trim(text.Value, `"`), ".")
		minor, _ = strconv.Atoi(after)
	}
	return minor
}

// gatesUsed returns the gates that the source of the kube-scheduler names.
func gatesUsed(dir string) (map[string]bool, error) {
	used := map[string]bool{}
	return used, eachFile(dir, func(f *ast.File) {
		if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"k8s.io/kubernetes/pkg/features"` }) {
			return
		}
		for _, name := range selected(f, "features") {
			used[name] = true
		}
	})
}

// defaultPlugins returns the plugins of getDefaultPlugins, and the plugins of applyFeatureGates and the functions that it calls, if their
// gate is on.
func defaultPlugins(file string, on map[string]bool) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return nil, err
	}
	functions := map[string]*ast.FuncDecl{}
	for _, decl := range f.Decls {
		if fn, is := decl.(*ast.FuncDecl); is {
			functions[fn.Name.Name] = fn
		}
	}
	plugins := map[string]bool{}
	var add func(n ast.Node)
	add = func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				gates := selected(n.Cond, "features")
				return !slices.ContainsFunc(gates, func(gate string) bool { return !on[gate] })
			case *ast.KeyValueExpr:
				if names := selected(n.Value, "names"); nameOf(n.Key) == "Name" && len(names) == 1 {
					plugins[names[0]] = true
				}
			case *ast.CallExpr:
				if fn := functions[nameOf(n.Fun)]; fn != nil {
					add(fn.Body)
				}
			}
			return true
		})
	}
	if functions["getDefaultPlugins"] == nil {
		return nil, fmt.Errorf("%s has no default plugins", file)
	}
	add(functions["getDefaultPlugins"].Body)
	return slices.Sorted(maps.Keys(plugins)), nil
}

// selected returns the names selected from a package.
func selected(n ast.Node, of string) (names []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is && nameOf(s.X) == of {
			names = append(names, s.Sel.Name)
		}
		return true
	})
	return names
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// eachFile parses the source in a folder, without tests, and calls do with each file.
func eachFile(dir string, do func(*ast.File)) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testing":
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		do(f)
		return nil
	})
}
