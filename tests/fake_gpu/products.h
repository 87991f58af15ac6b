// A product of matrices, column by column: D = alpha op(A) op(B) + beta C, and what an epilogue makes of it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fake_gpu.h"

namespace fake_gpu {

enum ElementType : int { F32 = 0, F16 = 2, BF16 = 14 };

struct Matrix {
    ElementType type = F32;
    uint64_t rows = 0, columns = 0;
    int64_t leading = 0;

    bool operator==(const Matrix&) const = default;

    size_t element_bytes() const { return type == F32 ? 4 : 2; }

    fake_gpu_matrix at(const void* address) const {
        return {address, rows * element_bytes(), columns, size_t(leading) * element_bytes()};
    }
};

// What is done with a product before it is stored as D. The bias lies along the rows; what GELU is given is an
// auxiliary matrix like D, which the first writes and the second reads.
enum class Epilogue { NOTHING, ADDS_BIAS, GELU_OF_SUM_WITH_BIAS, TIMES_GELU_GRADIENT };

struct Product {
    Matrix a, b, c, d;
    bool a_is_transposed = false, b_is_transposed = false;
    Epilogue epilogue = Epilogue::NOTHING;
    // Whether factors, which are f32, are rounded to 10 bits behind the point.
    bool rounds_to_tf32 = false;

    bool operator==(const Product&) const = default;

    bool has_bias() const {
        return epilogue == Epilogue::ADDS_BIAS || epilogue == Epilogue::GELU_OF_SUM_WITH_BIAS;
    }

    bool has_aux() const {
        return epilogue == Epilogue::GELU_OF_SUM_WITH_BIAS || epilogue == Epilogue::TIMES_GELU_GRADIENT;
    }

    uint64_t inner() const { return a_is_transposed ? a.rows : a.columns; }

    bool sizes_match() const {
        uint64_t rows = a_is_transposed ? a.columns : a.rows, columns = b_is_transposed ? b.rows : b.columns;
        uint64_t inner_of_b = b_is_transposed ? b.columns : b.rows;
        bool is_result = d.rows == rows && d.columns == columns && c.rows == rows && c.columns == columns;
        return is_result && inner() == inner_of_b;
    }

    // How many terms are added up before their sum is added to the others'. It depends on sizes, types and
    // transposes alone, so equal products give equal bits; products of other sizes add in another order, as
    // on a GPU, as do those with another epilogue.
    uint64_t run_length() const {
        uint64_t mixed = 0x9e3779b97f4a7c15u;
        for (uint64_t part : {d.rows, d.columns, inner(), uint64_t(a.type), uint64_t(d.type),
                              uint64_t(a_is_transposed), uint64_t(b_is_transposed), uint64_t(has_aux()), uint64_t(rounds_to_tf32)}) {
            mixed = (mixed ^ part) * 0xff51afd7ed558ccdu;
            mixed ^= mixed >> 32;
        }
        return 5 + mixed % 43;
    }
};

struct Operands {
    const void *a, *b, *c;
    void* d;
    const void* bias;
    void* aux;
    int64_t aux_leading;
    float alpha, beta;
    // Of the bytes that the algorithm needs, null where it needs none.
    void* workspace;
    size_t workspace_bytes;
};

// GELU in its tanh form, and its gradient.
struct Gelu {
    double value, gradient;

    explicit Gelu(double x) {
        const double SCALE = 0.7978845608028654, CUBE = 0.044715;
        double tanh = std::tanh(SCALE * (x + CUBE * x * x * x));
        value = 0.5 * x * (1 + tanh);
        gradient = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * SCALE * (1 + 3 * CUBE * x * x);
    }
};

inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline float load_element(const void* matrix, ElementType type, size_t index) {
    if (type == F32) {
        return ((const float*)matrix)[index];
    }
    uint32_t bits = ((const uint16_t*)matrix)[index];
    if (type == BF16) {
        return float_of(bits << 16);
    }
    _Float16 value;
    memcpy(&value, &((const uint16_t*)matrix)[index], sizeof value);
    return float(value);
}

// To nearest even.
inline void store_element(void* matrix, ElementType type, size_t index, float value) {
    if (type == F32) {
        ((float*)matrix)[index] = value;
    } else if (type == BF16) {
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint32_t rounded = value != value ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
        ((uint16_t*)matrix)[index] = uint16_t(rounded >> 16);
    } else {
        _Float16 narrow = _Float16(value);
        memcpy(&((uint16_t*)matrix)[index], &narrow, sizeof narrow);
    }
}

// To nearest, and away from zero from the middle, as the PTX ISA's `cvt.rna.tf32.f32`.
inline float rounded_to_tf32(float value) {
    const uint32_t NUM_DROPPED = 13, EXPONENT = 0x7f800000;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bool is_finite = (bits & EXPONENT) != EXPONENT;
    uint32_t rounded = is_finite ? bits + (1u << (NUM_DROPPED - 1)) : bits;
    return float_of(rounded >> NUM_DROPPED << NUM_DROPPED);
}

inline float rounded_to(float value, ElementType type) {
    float rounded;
    store_element(&rounded, type, 0, value);
    return load_element(&rounded, type, 0);
}

// A factor in f32 without gaps, transposed if asked for.
inline std::vector<float> widened(
    const void* values, const Matrix& matrix, bool is_transposed, bool rounds_to_tf32
) {
    std::vector<float> found(matrix.rows * matrix.columns);
    for (size_t column = 0; column < matrix.columns; column++) {
        for (size_t row = 0; row < matrix.rows; row++) {
            float value = load_element(values, matrix.type, column * size_t(matrix.leading) + row);
            found[is_transposed ? row * matrix.columns + column : column * matrix.rows + row] =
                rounds_to_tf32 ? rounded_to_tf32(value) : value;
        }
    }
    return found;
}

inline void access_operands(const Product& product, const Operands& operands) {
    fake_gpu_reads(product.a.at(operands.a), "cublasLtMatmul, A");
    fake_gpu_reads(product.b.at(operands.b), "cublasLtMatmul, B");
    if (operands.beta != 0) {
        fake_gpu_reads(product.c.at(operands.c), "cublasLtMatmul, C");
    }
    if (product.has_bias()) {
        size_t num_bytes = product.d.rows * product.d.element_bytes();
        fake_gpu_reads({operands.bias, num_bytes, 1, num_bytes}, "cublasLtMatmul, bias");
    }
    if (product.has_aux()) {
        Matrix aux = product.d;
        aux.leading = operands.aux_leading;
        bool is_written = product.epilogue == Epilogue::GELU_OF_SUM_WITH_BIAS;
        (is_written ? fake_gpu_writes : fake_gpu_reads)(aux.at(operands.aux), "cublasLtMatmul, auxiliary matrix");
    }
    fake_gpu_writes(product.d.at(operands.d), "cublasLtMatmul, D");
    if (operands.workspace) {
        size_t num_bytes = operands.workspace_bytes;
        fake_gpu_writes({operands.workspace, num_bytes, 1, num_bytes}, "cublasLtMatmul, workspace");
    }
}

// What is stored as an element of D.
inline float after_epilogue(
    const Product& product, const Operands& operands, float value, size_t row, size_t column
) {
    // An H200 rounds a product with a residual before it adds a bias, for some sizes in bf16.
    if (product.has_bias() && operands.beta != 0) {
        value = rounded_to(value, product.d.type);
    }
    value += product.has_bias() ? load_element(operands.bias, product.d.type, row) : 0.0f;
    size_t of_aux = column * size_t(operands.aux_leading) + row;
    if (product.epilogue == Epilogue::GELU_OF_SUM_WITH_BIAS) {
        store_element(operands.aux, product.d.type, of_aux, value);
        return float(Gelu(value).value);
    }
    if (product.epilogue == Epilogue::TIMES_GELU_GRADIENT) {
        return float(value * Gelu(load_element(operands.aux, product.d.type, of_aux)).gradient);
    }
    return value;
}

inline void multiply(const Product& product, const Operands& operands) {
    access_operands(product, operands);
    // An H200 multiplies a single pair of factors whole. From which size on it rounds is not documented.
    bool rounds_to_tf32 = product.rounds_to_tf32 && product.d.rows * product.d.columns * product.inner() > 1;
    auto a = widened(operands.a, product.a, product.a_is_transposed, rounds_to_tf32);
    auto b = widened(operands.b, product.b, product.b_is_transposed, rounds_to_tf32);
    size_t rows = product.d.rows, inner = product.inner(), run_length = product.run_length();
    std::vector<float> sums(rows), run(rows);
    for (size_t column = 0; column < product.d.columns; column++) {
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (size_t first = 0; first < inner; first += run_length) {
            std::fill(run.begin(), run.end(), 0.0f);
            for (size_t k = first; k < inner && k < first + run_length; k++) {
                const float *of_a = &a[k * rows], of_b = b[column * inner + k];
                for (size_t row = 0; row < rows; row++) {
                    run[row] += of_a[row] * of_b;
                }
            }
            for (size_t row = 0; row < rows; row++) {
                sums[row] += run[row];
            }
        }
        for (size_t row = 0; row < rows; row++) {
            float value = operands.alpha * sums[row];
            if (operands.beta != 0) {
                size_t index = column * size_t(product.c.leading) + row;
                value += operands.beta * load_element(operands.c, product.c.type, index);
            }
            value = after_epilogue(product, operands, value, row, column);
            store_element(operands.d, product.d.type, column * size_t(product.d.leading) + row, value);
        }
    }
}

}
