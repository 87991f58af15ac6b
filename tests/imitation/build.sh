#!/bin/sh
# Builds the imitation of CUDA's libraries with the kernels of a folder: build.sh OUT_DIR KERNELS_DIR
set -eu

out=$1
kernels=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"

# A line `name bound` for each kernel of the standard input; the bound is that of `__launch_bounds__`, or
# 1024.
list_kernels() {
    sed 's://.*$::' | tr '\n' ' ' |
        grep -oE '__global__ +(void +)?(__launch_bounds__ *\([^)]*\) *)?(void +)?[A-Za-z_][A-Za-z0-9_]* *\(' |
        sed -E 's/ *\($//; s/__global__ +//; s/void +//' |
        sed -E 's/^__launch_bounds__ *\(([^),]*)[^)]*\) *(.*)$/\2 \1/; t; s/$/ 1024/' |
        sed -E 's/void +//'
}

{
    echo "// Written by build.sh: all kernels of $kernels."
    for file in "$kernels"/*.cu; do
        echo "#include \"$file\""
    done
    echo "static const imitation::Kernel all_kernels[] = {"
    for file in "$kernels"/*.cu; do
        list_kernels <"$file" || true
    done | while read -r name bound; do
        echo "    KERNEL($name, $bound),"
    done
    echo "};"
} >"$out/kernels.inc"

if ! grep -q 'KERNEL(' "$out/kernels.inc"; then
    echo "no kernel in $kernels/*.cu" >&2
    exit 1
fi

# Products and sums are rounded one by one, as the kernels ask of NVRTC.
flags="-std=c++20 -shared -fPIC -fvisibility=hidden -ffp-contract=off -Wno-unknown-pragmas -Wl,-z,nodelete"
link="-L$out -lcuda -Wl,-rpath,\$ORIGIN"
cxx=${CXX:-g++}

# Tests may build at once: each file is replaced in one step.
compile() {
    name=$1
    shift
    "$cxx" $flags -Wl,-soname,"$name" -I "$here" -o "$out/$name.$$" "$@"
    mv "$out/$name.$$" "$out/$name"
}

compile libcuda.so -O1 -I "$kernels" -I "$out" "$here/libcuda.cpp" -lpthread
compile libnvrtc.so -O1 "$here/libnvrtc.cpp" $link
compile libcublasLt.so -O3 "$here/libcublasLt.cpp" $link
