"""What benches/gpu/warp_functions.py gives to its kernels, and what each lane must get by the PTX ISA.

Each of `products`, `loads`, `pairs` and `copies` is a `fn(draw, element) -> (inputs, expected)`. For each
argument of the kernel, `inputs` has a list of words for each thread; `expected` has the words that each thread
must write. Factors are small whole numbers, so that every sum is exact in f32, whatever the order.
"""

import math
import struct

BLOCKS, THREADS, LANES = 8, 256, 32
NUM_THREADS = BLOCKS * THREADS
# Of the place of a copy: nothing must be read, and there would be other bytes than zeros; or there is no memory.
OUTSIDE, FAR = 1 << 31, 1 << 28


def products(draw, element):
    """PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"."""
    inputs, expected = [], []
    for warp in range(NUM_THREADS // LANES):
        left = [[draw.randint(-128, 128) for _ in range(16)] for _ in range(16)]
        right = [[draw.randint(-128, 128) for _ in range(8)] for _ in range(16)]
        # Zero in every fourth warp.
        most = 1 << 18 if warp % 4 else 0
        before = [[draw.randint(-most, most) for _ in range(8)] for _ in range(16)]
        after = [
            [before[row][n] + sum(left[row][k] * right[k][n] for k in range(16)) for n in range(8)]
            for row in range(16)
        ]
        for lane in range(LANES):
            group, in_group = lane >> 2, lane % 4
            a = [left[group + 8 * (i // 2 % 2)][in_group * 2 + (i & 1) + 8 * (i // 4)] for i in range(8)]
            b = [right[in_group * 2 + (i & 1) + 8 * (i // 2)][group] for i in range(4)]
            c, d = (
                [bits_of(sums[group + 8 * (i // 2)][in_group * 2 + (i & 1)]) for i in range(4)]
                for sums in (before, after)
            )
            halves = [narrowed(bits_of(number), element) for number in a + b]
            inputs.append([pair(halves[i], halves[i + 1]) for i in range(0, 12, 2)] + c)
            expected.append(d)
    return [inputs], expected


def loads(draw, _element):
    """PTX ISA, "ldmatrix": the lanes from `8 p` on have the addresses of the rows of part `p`."""
    rows = [[draw.getrandbits(16) for _ in range(8)] for _ in range(NUM_THREADS)]
    places = [draw.randrange(THREADS) for _ in range(NUM_THREADS)]
    inputs, expected = [], []
    for thread in range(NUM_THREADS):
        inputs.append([pair(rows[thread][i], rows[thread][i + 1]) for i in range(0, 8, 2)] + [places[thread]])
        lane, warp, block = thread % LANES, thread - thread % LANES, thread - thread % THREADS
        row, column = lane // 4, lane % 4 * 2
        parts, transposed = [], []
        for first in range(warp, warp + LANES, 8):
            part = [rows[block + place] for place in places[first : first + 8]]
            parts.append(pair(part[row][column], part[row][column + 1]))
            transposed.append(pair(part[column][row], part[column + 1][row]))
        expected.append(parts + transposed)
    return [inputs], expected


def pairs(draw, element):
    """PTX ISA, "cvt" and "ex2". Every other thread's numbers are at a tie of two elements, or beside one."""
    special = [0.0, -0.0, 1.0, -1.0, 10.0, -125.0, -127.5, -140.0, -200.0, 200.0, -math.inf, math.inf]
    tie = 0x8000 if element == "BF16" else 0x1000
    inputs, expected = [], []
    for thread in range(NUM_THREADS):
        halves = [drawn(draw, 16, lambda bits: widened(bits, element)) for _ in range(2)]
        numbers = [drawn(draw, 32, lambda bits: bits) for _ in range(2)]
        if thread % 2 and all(math.isfinite(float_of(widened(half, element))) for half in halves):
            numbers = [widened(half, element) + tie + draw.randint(-1, 1) for half in halves]
        exponent = special[thread] if thread < len(special) else draw.uniform(-125.9, 127.9)
        exponent = float_of(bits_of(exponent))
        power = 2.0**exponent if exponent >= -126.0 else 0.0
        inputs.append([*numbers, pair(*halves), bits_of(exponent)])
        both = pair(*(narrowed(number, element) for number in numbers))
        wide = [widened(half, element) for half in halves]
        expected.append([both, both, pair(*halves), *wide, bits_of(power)])
    return [inputs], expected


def copies(draw, _element):
    """PTX ISA, "cp.async". Every third place is outside, every sixth where no memory is: zeros are written."""
    rows = [[draw.getrandbits(32) for _ in range(4)] for _ in range(NUM_THREADS)]
    numbers = [word for row in rows for word in row]
    places, expected = [], []
    for thread in range(NUM_THREADS):
        beyond = OUTSIDE * (thread % 3 == 0) + FAR * (thread % 6 == 0)
        places.append(draw.randrange(NUM_THREADS) + beyond)
    for thread in range(NUM_THREADS):
        place = places[thread - thread % THREADS + (thread + LANES + 1) % THREADS]
        expected.append([*rows[place], numbers[place]] if place < OUTSIDE else [0] * 5)
    return [rows, [[place] for place in places]], expected


def bits_of(number):
    """Of an f32, to nearest even."""
    try:
        return struct.unpack("<I", struct.pack("<f", number))[0]
    except OverflowError:
        return 0x7F800000 if number > 0 else 0xFF800000


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def narrowed(bits, element):
    """The 16 bits of an f32 that is not NaN, to nearest even."""
    if element == "BF16":
        upper, lower = bits >> 16, bits & 0xFFFF
        return upper + (lower > 0x8000 or (lower == 0x8000 and upper % 2 == 1))
    try:
        return struct.unpack("<H", struct.pack("<e", float_of(bits)))[0]
    except OverflowError:
        return 0x7C00 | bits >> 31 << 15


def widened(half, element):
    """The bits of the f32 with the value of these 16 bits."""
    if element == "BF16":
        return half << 16
    return bits_of(struct.unpack("<e", struct.pack("<H", half))[0])


def pair(first, second):
    return first | second << 16


def drawn(draw, num_bits, wide_bits):
    """Bits that are not NaN."""
    while math.isnan(float_of(wide_bits(bits := draw.getrandbits(num_bits)))):
        pass
    return bits
