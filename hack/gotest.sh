#!/usr/bin/env bash
# hack/gotest.sh FLAGS... PACKAGES...: go test, once for every module of the packages, since go test takes packages of one module.
# MODULES are the folders of the modules below this one, which DIR/... includes.
# The test programs stay below bin/tests, and are linked again only when they change: that takes longer than most of them run. With -c, which only
# compiles, the programs of Ginkgo suites are linked to from their packages, where ginkgo runs them.
set -o pipefail
cd "$(dirname "$0")/.." || exit 1
failed=0
for module in . $MODULES; do
	flags=() tested=() only=
	for arg; do
		case $arg in -c) only=yes ;; esac
		case $arg in ./*) ;; *) flags+=("$arg") && continue ;; esac
		in=.
		for other in $MODULES; do case $arg/ in "./$other/"*) in=$other ;; esac; done
		if [ "$in" = "$module" ]; then
			[ "$in" = . ] || arg=.${arg#"./$in"}
			tested+=("$arg")
		else
			case $arg in */...) case ./$module/ in "${arg%...}"*) tested+=(./...) ;; esac ;; esac
		fi
	done
	[ ${#tested[@]} = 0 ] && continue
	# Programs of the same name need a folder each: number, folder and import path of the packages, those with the rarest names first.
	packages=$(go -C "$module" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}} {{.ImportPath}}{{end}}' "${tested[@]}" |
		awk 'NF { name = $2; sub(/.*\//, "", name); print ++n[name], $0 }') || { failed=1 && continue; }
	for number in $(cut -d' ' -f1 <<< "$packages" | sort -urn); do
		programs=$PWD/bin/tests/$module/$number
		mkdir -p "$programs"
		mapfile -t paths < <(awk -v number="$number" '$1 == number { print $3 }' <<< "$packages")
		go -C "$module" test -ldflags='-s -w' -o "$programs/" "${flags[@]}" "${paths[@]}" || failed=1
		[ "$only" ] || continue
		awk -v number="$number" '$1 == number { print $2 }' <<< "$packages" | while read -r dir; do
			[ ! -e "$dir/suite_test.go" ] || ln -sf "$programs/${dir##*/}.test" "$dir/"
		done
	done
done
exit $failed
