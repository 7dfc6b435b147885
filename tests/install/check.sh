#!/usr/bin/env bash
# The steps of the install tests, run by ctest: check.sh STEP static|shared. CMakeLists.txt says which and with what.
set -euo pipefail
step=$1
kind=$2
work=$WORK/$kind
prefix=$work/prefix
libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$TREE/CMakeCache.txt")
if [[ $kind == shared ]]; then tree=$work/tree; else tree=$TREE; fi
mkdir -p "$work"

stop() { echo "$*" >&2; exit 1; }

build_shared() {  # OPTION...
  "$CMAKE" -S "$SOURCE" -B "$tree" -G Ninja -DBUILD_SHARED_LIBS=ON -DHOLDFAST_BUILD_TESTS=OFF \
    -DCMAKE_COMPILE_WARNING_AS_ERROR=ON \
    -DCMAKE_BUILD_TYPE="$BUILD_TYPE" -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_COMPILER_LAUNCHER="$LAUNCHER" \
    -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,defs "$@"
  "$CMAKE" --build "$tree"
}

run_outside() {  # PROGRAM
  local locks
  locks=$(mktemp -d)
  "$1" memory:outside "file:$locks" || { rm -rf "$locks"; stop "the outside program failed"; }
  rm -rf "$locks"
}

case $step in
  install)
    [[ $kind == static ]] || build_shared -DHOLDFAST_BUILD_TOOL=ON -DHOLDFAST_WITH_FILE=ON -DHOLDFAST_WITH_MEMORY=ON \
      -DHOLDFAST_WITH_ZK=ON -DHOLDFAST_WITH_ETCD=ON -DHOLDFAST_WITH_POSTGRES=ON -DHOLDFAST_WITH_SQLITE=ON
    rm -rf "$prefix" "$prefix.made"
    "$CMAKE" --install "$tree" --prefix "$prefix.made"
    mv "$prefix.made" "$prefix"  # whatever is installed has to stand being moved
    ! grep -rIl "$SOURCE" "$prefix" || stop "these files mention the source tree"
    ;;

  command)
    # An empty environment: it has to find its library by itself.
    env -i "$prefix/bin/holdfast" run --url "file:$work/locks" install -- true
    env -i "$prefix/bin/holdfast" --help >"$work/help"
    rm -rf "$work/locks"
    ;;

  find_package)
    "$CMAKE" -S "$SOURCE/tests/install/outside" -B "$work/find_package" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
      -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_COMPILER_LAUNCHER="$LAUNCHER"
    "$CMAKE" --build "$work/find_package"
    run_outside "$work/find_package/outside"
    ! ldd "$work/find_package/outside" | grep -E 'libpq|sqlite' || stop "it links stores that it did not ask for"
    ;;

  stores)
    "$CMAKE" -S "$SOURCE/tests/install/stores" -B "$work/stores" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
      -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_COMPILER_LAUNCHER="$LAUNCHER"
    "$CMAKE" --build "$work/stores"
    "$work/stores/stores"
    export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
    flags=$(pkg-config --cflags --libs holdfast-postgres holdfast-sqlite)
    echo "pkg-config: $flags"
    # shellcheck disable=SC2086  # flags are words
    "$CXX" -std=c++20 "$SOURCE/tests/install/stores/main.cpp" -o "$work/stores/by_pkg_config" $flags
    LD_LIBRARY_PATH=$prefix/$libdir "$work/stores/by_pkg_config"
    ;;

  pkg_config)
    export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
    flags=$(pkg-config --cflags --libs holdfast)
    echo "pkg-config: $flags"
    # shellcheck disable=SC2086  # flags are words
    "$CXX" -std=c++20 "$SOURCE/tests/install/outside/main.cpp" -o "$work/outside" $flags
    LD_LIBRARY_PATH=$prefix/$libdir run_outside "$work/outside"
    ;;

  symbols)
    # Nothing of the inside is part of the binary interface. (Boost marks some of its own as visible; that is its business.)
    library=$prefix/$libdir/libholdfast.so
    nm -DC --defined-only "$library" >"$work/symbols"
    grep -q 'T holdfast::Client::connect' "$work/symbols" || stop "$library does not export Client::connect"
    ! grep -E '[TDBRVWu] (holdfast::detail::|toml::|etcdserverpb::)' "$work/symbols" || stop "$library exports what is not public"
    for store in postgres sqlite; do
      nm -DC --defined-only "$prefix/$libdir/libholdfast-$store.so" >"$work/symbols"
      grep -q "T holdfast::$store::guard" "$work/symbols" || stop "libholdfast-$store.so does not export guard"
      ! grep -E '[TDBRVWu] holdfast::(stores::|.*::Connection)' "$work/symbols" ||
        stop "libholdfast-$store.so exports what is not public"
    done
    ;;

  without)
    # The program that was linked against the whole library runs against one that lacks a backend.
    outside() { LD_LIBRARY_PATH=$tree/common "$work/outside" "$@"; }
    build_without() {
      build_shared -DHOLDFAST_BUILD_TOOL=OFF -DHOLDFAST_WITH_POSTGRES=OFF -DHOLDFAST_WITH_SQLITE=OFF "$@" \
        >"$work/without.log" || { cat "$work/without.log"; exit 1; }
    }
    locks=$(mktemp -d)
    trap 'rm -rf "$locks"' EXIT
    build_without -DHOLDFAST_WITH_FILE=OFF -DHOLDFAST_WITH_MEMORY=ON
    outside memory:there --without "file:$locks"
    build_without -DHOLDFAST_WITH_FILE=ON -DHOLDFAST_WITH_MEMORY=OFF
    outside "file:$locks" --without memory:none
    build_without -DHOLDFAST_WITH_FILE=ON -DHOLDFAST_WITH_ZK=OFF
    outside "file:$locks" --without zk://127.0.0.1
    build_without -DHOLDFAST_WITH_ZK=ON -DHOLDFAST_WITH_ETCD=OFF
    outside "file:$locks" --without etcd://127.0.0.1
    build_without -DHOLDFAST_WITH_FILE=OFF -DHOLDFAST_WITH_MEMORY=OFF -DHOLDFAST_WITH_ZK=OFF -DHOLDFAST_WITH_ETCD=OFF
    outside --without "file:$locks" memory:none zk://127.0.0.1 etcd://127.0.0.1
    ! ldd "$tree/common/libholdfast.so" | grep -E 'zookeeper|grpc|protobuf' || stop "it links what it does not need"
    ;;

  *) stop "unknown step '$step'" ;;
esac
