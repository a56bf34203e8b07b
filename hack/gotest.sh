#!/usr/bin/env bash
# hack/gotest.sh FLAGS... PACKAGES...: go test -json for gotestsum, once for every module of the packages, since go test takes packages of one module.
# MODULES are the folders of the modules below this one, which DIR/... includes.
set -uo pipefail
cd "$(dirname "$0")/.."
flags=()
declare -A packages
for arg; do
	case $arg in
	./*) ;;
	*) flags+=("$arg") && continue ;;
	esac
	in=. given=$arg
	for module in $MODULES; do
		case $arg/ in "./$module/"*) in=$module && arg=.${arg#"./$module"} ;; esac
		case $given in */...) case ./$module/ in "${given%...}"*) packages[$module]+=" ./..." ;; esac ;; esac
	done
	packages[$in]+=" $arg"
done
failed=0
for module in . $MODULES; do
	read -ra tested <<< "${packages[$module]:-}"
	[ ${#tested[@]} = 0 ] || go -C "$module" test -json "${flags[@]}" "${tested[@]}" || failed=1
done
exit $failed
