#!/bin/sh
# Installs what the feature `mpi` needs: an MPI library with its headers, mpirun, and libclang, which reads the headers when
# pipezero is built. Where it may not install anything it says what is missing.
set -eu

missing=
command -v mpicc >/dev/null || missing="$missing libopenmpi-dev"
command -v mpirun >/dev/null || missing="$missing openmpi-bin"
# libclang-cpp is another library, of which bindgen can make nothing.
find_libclang() {
    find /usr/lib /usr/lib64 /usr/local/lib -name 'libclang*.so*' 2>/dev/null
    ldconfig -p
}
[ -n "${LIBCLANG_PATH:-}" ] || find_libclang | grep -v libclang-cpp | grep -q 'libclang[-.0-9]*\.so' || missing="$missing libclang-dev"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing:$missing (the names are Debian's). Install these, or the same of another system: MPI's mpicc and mpirun, and libclang" >&2
    exit 1
fi
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing
