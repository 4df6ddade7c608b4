#!/bin/sh
# Run the tests of the kernel in a Python for aarch64, under qemu-user, on a Debian of another processor.
#
#     sh scripts/run_on_aarch64.sh [TESTS ...]        (by default those that compare each loop with NumPy)
#
# Debian's Python and the wheels of our dependencies are unpacked into build/aarch64; nothing is
# installed. Needs qemu-aarch64 (the package qemu-user), apt-get, pip and `make kernels`. Twenty minutes.
set -eu
cd "$(dirname "$0")/.."
home=$PWD/build/aarch64
kernel=build/kernels/aarch64-linux-gnu.2.17/loops.abi3.so
python=.venv/bin/python

if [ ! -e "$home/root" ]; then
    mkdir -p "$home/apt/lists/partial" "$home/apt/cache/archives/partial" "$home/debs" "$home/wheels"
    : > "$home/apt/status"
    echo "deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
        "http://deb.debian.org/debian bookworm main" > "$home/apt/sources.list"
    cat > "$home/apt/apt.conf" <<CONF
Dir::State "$home/apt";
Dir::State::status "$home/apt/status";
Dir::Cache "$home/apt/cache";
Dir::Etc::sourcelist "$home/apt/sources.list";
Dir::Etc::sourceparts "-";
APT::Architecture "arm64";
APT::Architectures {"arm64";};
CONF
    export APT_CONFIG="$home/apt/apt.conf"
    apt-get update --quiet=2
    (cd "$home/debs" && apt-get download --quiet=2 python3.11-minimal libpython3.11-minimal \
        libpython3.11-stdlib libc6 libexpat1 zlib1g libssl3 libffi8 liblzma5 libbz2-1.0 libsqlite3-0 \
        libgcc-s1 libstdc++6 libuuid1 libcrypt1)
    mkdir "$home/root.new"
    for deb in "$home"/debs/*.deb; do dpkg -x "$deb" "$home/root.new"; done
    $python -m pip download --quiet --dest "$home/wheels" --only-binary=:all: --python-version 311 \
        --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 \
        numpy orjson xxhash zlib-ng backports.zstd 'gigatoken>=0.10,<0.11' click rich \
        pytest pytest-timeout hypothesis
    for wheel in "$home"/wheels/*.whl; do $python -m zipfile -e "$wheel" "$home/site"; done
    mv "$home/root.new" "$home/root"
fi

# The sources with the kernel of that processor, in place of this one's.
rm -rf "$home/src"
cp -r src "$home/src"
rm -f "$home"/src/tokenmill/kernel/*.so
cp "$kernel" "$home/src/tokenmill/kernel/"
if [ $# -eq 0 ]; then
    set -- tests/kernel/test_kernel.py tests/kernel/test_gather_spans.py tests/augment/test_augmentation.py \
        tests/order/test_permutation.py tests/order/test_recipes.py tests/text/test_clean.py \
        tests/text/test_lines.py tests/text/test_filters.py tests/text/test_near.py tests/batches/test_document_masks.py \
        tests/batches/test_document_rows.py tests/promises/test_order_is_frozen.py
fi
# Those that start processes cannot: `sys.executable` is a program of aarch64.
exec qemu-aarch64 -L "$home/root" -E PYTHONPATH="$home/site:$home/src:$PWD/tests" \
    "$home/root/usr/bin/python3.11" -m pytest -p no:cacheprovider -o pythonpath= --timeout 3000 \
    -k "not without_a_compiler and not version_says and not selects_the_twins" "$@"
