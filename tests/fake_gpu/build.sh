#!/bin/sh
# Builds the fake CUDA libraries with kernels of a folder: build.sh OUT_DIR KERNELS_DIR [checked]
set -eu

out=$1
kernels=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"

# What is built is kept as long as nothing that it is made of has changed.
# Kernels are compiled for the processor of this host.
processor=$(grep -m 1 -E '^(flags|Features)' /proc/cpuinfo | cksum)
made_of="$(cat "$here"/* "$kernels"/* | cksum) $processor ${3-}"
if [ -f "$out/made-of" ] && [ "$(cat "$out/made-of")" = "$made_of" ]; then
    exit 0
fi

# A line `name bound` for each kernel of the standard input; the bound is that of `__launch_bounds__`, or
# 1024.
list_kernels() {
    sed 's://.*$::' | tr '\n' ' ' |
        grep -oE '__global__ +(void +)?(__launch_bounds__ *\([^)]*\) *)?(void +)?[A-Za-z_][A-Za-z0-9_]* *\(' |
        sed -E 's/ *\($//; s/__global__ +//; s/void +//' |
        sed -E 's/^__launch_bounds__ *\(([^),]*)[^)]*\) *(.*)$/\2 \1/; t; s/$/ 1024/' |
        sed -E 's/void +//'
}

# Kernels are compiled once for each type of elements, in a namespace of its own, where what they define is
# defined anew. Their names, which are those of C functions, get the type's. Files that ask by `#if` whether it
# is f32 are for 16 bits alone.
{
    echo "// Written by build.sh: all kernels of $kernels, for each type of elements."
    for element in F32 BF16 F16; do
        files=$(ls "$kernels"/*.cu)
        if [ $element = F32 ]; then
            # Its status says different things in different versions.
            files=$(grep -L 'ELEMENT_F32' "$kernels"/*.cu || true)
        fi
        names=$(for file in $files; do list_kernels <"$file" || true; done)
        echo "namespace of_$element {"
        echo "#define ELEMENT_$element"
        echo "$names" | sed -E "s/^(.*) .*/#define \1 \1_$element/"
        for file in $files; do
            echo "#include \"$file\""
        done
        echo "static const fake_gpu::Kernel all_kernels[] = {"
        echo "$names" | sed -E 's/^(.*) (.*)/    KERNEL(\1, \2),/'
        echo "};"
        echo "$names" | sed -E 's/^(.*) .*/#undef \1/'
        echo "#undef ELEMENT_$element"
        grep -hoE '^ *# *define +[A-Za-z_0-9]+' "$kernels"/*.cu "$kernels"/*.cuh |
            sed 's/define/undef/' | sort -u
        echo "}"
    done
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

# Where it is asked for, each read and write of a kernel calls a function of `accesses.h`; an index outside an
# array whose size is known is a trap, and so is a pack of 16 bytes at an address that is not aligned to them.
checks=
if [ "${3-}" = checked ]; then
    checks="-fsanitize=kernel-address --param asan-instrumentation-with-call-threshold=0"
    checks="$checks --param asan-stack=0 --param asan-globals=0"
    checks="$checks -fsanitize=bounds-strict,alignment -fsanitize-undefined-trap-on-error"
fi
shared="-fdata-sections -Wl,-T,$here/shared.ld"
compile libcuda.so -O2 -march=native $checks $shared -I "$kernels" -I "$out" "$here/libcuda.cpp" -lpthread
compile libnvrtc.so -O1 "$here/libnvrtc.cpp" $link
compile libcublasLt.so -O3 "$here/libcublasLt.cpp" $link
compile libnccl.so -O1 "$here/libnccl.cpp" $link -lpthread
"$cxx" -std=c++20 -O1 -o "$out/nccl_misuse.$$" "$here/nccl_misuse.cpp" $link -lnccl -lpthread
mv "$out/nccl_misuse.$$" "$out/nccl_misuse"
echo "$made_of" >"$out/made-of"
