// A fake cuBLASLt: products in f32, bf16 and f16 with f32 sums, with a bias, GELU or its gradient.

#include <algorithm>
#include <new>

#include "fake_gpu.h"
#include "product_faults.h"
#include "products.h"
#include "times.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using namespace fake_gpu;

namespace {

enum Status : int { SUCCESS = 0, INVALID_VALUE = 7, INTERNAL_ERROR = 14, NOT_SUPPORTED = 15 };

// cublasLtEpilogue_t
enum EpilogueBits : uint32_t { DEFAULT = 1, BIAS = 4, GELU_AUX_BIAS = 164, DGELU = 192 };

enum ComputeType : int { COMPUTE_32F = 68, COMPUTE_32F_PEDANTIC = 69, COMPUTE_32F_FAST_TF32 = 77 };

struct Description {
    int compute_type, scale_type;
    int pointer_mode = 0, a_operation = 0, b_operation = 0, c_operation = 0;
    uint32_t epilogue = DEFAULT;
    const void* bias = nullptr;
    // That of D unless it is set.
    int bias_type = -1;
    // What GELU was given: written by GELU_AUX_BIAS, read by DGELU.
    void* aux = nullptr;
    int64_t aux_leading = 0;
};

struct Layout {
    Matrix matrix;
    int order = 0;
    int num_batches = 1;
};

// Bytes that addresses of A, B, C and D are promised to be multiples of.
struct Alignments {
    uint32_t bytes[4] = {16, 16, 16, 16};
};

struct Preference {
    Alignments alignments;
    size_t workspace_bytes_max = 0;
};

// What algorithms that multiply by GELU's gradient need, as on an H200 the fast ones do; it proposes none of them
// where it may have less than megabytes. Here the first proposal needs them all. Others need none.
const size_t WORKSPACE_BYTES = 131, OFFERED_BYTES = 1 << 20;

// What is in the 64 bytes of a cublasLtMatmulAlgo_t: for what it was chosen.
struct Algorithm {
    uint64_t mark;
    Alignments alignments;
    uint64_t workspace_bytes;
    uint64_t unused[4];
};
static_assert(sizeof(Algorithm) == 64);

// cublasLtMatmulHeuristicResult_t
struct Proposal {
    Algorithm algorithm;
    size_t workspace_bytes;
    Status status;
    float num_waves;
    int reserved[4];
};

template <class T>
Status set(T& to, const void* value, size_t num_bytes) {
    if (!value || num_bytes != sizeof to) {
        return INVALID_VALUE;
    }
    memcpy(&to, value, sizeof to);
    return SUCCESS;
}

bool is_known(int type) { return type == F32 || type == BF16 || type == F16; }

// The product that is asked for, or why there is none.
Status read(const Description* asked, const Layout* const (&layouts)[4], Product& product) {
    if (!asked || std::count(std::begin(layouts), std::end(layouts), nullptr) != 0) {
        return INVALID_VALUE;
    }
    for (const Layout* layout : layouts) {
        if (!is_known(layout->matrix.type) || layout->order != 0 || layout->num_batches != 1) {
            return NOT_SUPPORTED;
        }
        if (layout->matrix.leading < int64_t(layout->matrix.rows)) {
            return INVALID_VALUE;
        }
    }
    bool rounds_to_tf32 = asked->compute_type == COMPUTE_32F_FAST_TF32;
    bool is_f32 =
        asked->compute_type == COMPUTE_32F || asked->compute_type == COMPUTE_32F_PEDANTIC || rounds_to_tf32;
    const int NOT_TRANSPOSED = 0, TRANSPOSED = 1;
    bool is_plain =
        asked->pointer_mode == 0 && asked->scale_type == F32 && asked->c_operation == NOT_TRANSPOSED;
    Epilogue epilogue;
    switch (asked->epilogue) {
        case DEFAULT: epilogue = Epilogue::NOTHING; break;
        case BIAS: epilogue = Epilogue::ADDS_BIAS; break;
        case GELU_AUX_BIAS: epilogue = Epilogue::GELU_OF_SUM_WITH_BIAS; break;
        case DGELU: epilogue = Epilogue::TIMES_GELU_GRADIENT; break;
        default: return NOT_SUPPORTED;
    }
    if (!is_f32 || !is_plain) {
        return NOT_SUPPORTED;
    }
    if (std::max(asked->a_operation, asked->b_operation) > TRANSPOSED) {
        return NOT_SUPPORTED;
    }
    product = {layouts[0]->matrix, layouts[1]->matrix, layouts[2]->matrix, layouts[3]->matrix,
               asked->a_operation == TRANSPOSED, asked->b_operation == TRANSPOSED, epilogue, rounds_to_tf32};
    // cuBLAS documentation, cublasLtMatmul(), the tables for CUBLAS_COMPUTE_32F and CUBLAS_COMPUTE_32F_FAST_TF32.
    bool is_in_table = product.a.type == product.b.type && product.c.type == product.d.type &&
                       (product.d.type == F32 || product.d.type == product.a.type) &&
                       (product.a.type == F32 || !rounds_to_tf32);
    bool has_known_bias =
        !product.has_bias() || asked->bias_type == -1 || asked->bias_type == product.d.type;
    if (!is_in_table || !has_known_bias) {
        return NOT_SUPPORTED;
    }
    // The same, cublasLtMatmulDescAttributes_t: the auxiliary matrix has D's type.
    bool has_aux_leading = asked->aux_leading % 8 == 0 && asked->aux_leading >= int64_t(product.d.rows);
    if (product.has_aux() && !has_aux_leading) {
        return INVALID_VALUE;
    }
    return product.sizes_match() && product.inner() > 0 ? SUCCESS : INVALID_VALUE;
}

uint64_t mark_of(const Product& product) {
    uint64_t mark = 0xcbf29ce484222325u;
    auto mix = [&](uint64_t part) { mark = (mark ^ part) * 0x100000001b3u; };
    for (const Matrix& matrix : {product.a, product.b, product.c, product.d}) {
        mix(uint64_t(matrix.type));
        mix(matrix.rows);
        mix(matrix.columns);
        mix(uint64_t(matrix.leading));
    }
    mix(product.a_is_transposed);
    mix(product.b_is_transposed);
    mix(uint64_t(product.epilogue));
    mix(product.rounds_to_tf32);
    return mark;
}

struct Call {
    Product product;
    Operands operands;
};

}

EXPORTED size_t cublasLtGetVersion() { return 130000; }
EXPORTED size_t cublasLtGetCudartVersion() { return 13000; }

EXPORTED const char* cublasLtGetStatusName(Status status) {
    switch (status) {
        case SUCCESS: return "CUBLAS_STATUS_SUCCESS";
        case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
        case INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
        case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "CUBLAS_STATUS unknown";
}

EXPORTED const char* cublasLtGetStatusString(Status status) { return cublasLtGetStatusName(status); }

EXPORTED Status cublasLtCreate(void** handle) {
    *handle = new char;
    return fake_gpu_fails() ? INTERNAL_ERROR : SUCCESS;
}

EXPORTED Status cublasLtDestroy(void* handle) {
    delete (char*)handle;
    return SUCCESS;
}

EXPORTED Status cublasLtMatmulDescCreate(Description** description, int compute_type, int scale_type) {
    *description = new Description{compute_type, scale_type};
    return SUCCESS;
}

EXPORTED Status cublasLtMatmulDescDestroy(Description* description) {
    delete description;
    return SUCCESS;
}

// cublasLtMatmulDescAttributes_t
EXPORTED Status cublasLtMatmulDescSetAttribute(
    Description* to, int attribute, const void* value, size_t num_bytes
) {
    switch (attribute) {
        case 0: return set(to->compute_type, value, num_bytes);
        case 1: return set(to->scale_type, value, num_bytes);
        case 2: return set(to->pointer_mode, value, num_bytes);
        case 3: return set(to->a_operation, value, num_bytes);
        case 4: return set(to->b_operation, value, num_bytes);
        case 5: return set(to->c_operation, value, num_bytes);
        case 7: return set(to->epilogue, value, num_bytes);
        case 8: return set(to->bias, value, num_bytes);
        case 11: return set(to->aux, value, num_bytes);
        case 12: return set(to->aux_leading, value, num_bytes);
        case 26: return set(to->bias_type, value, num_bytes);
        default: return NOT_SUPPORTED;
    }
}

EXPORTED Status cublasLtMatrixLayoutCreate(
    Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t leading
) {
    *layout = new Layout{{ElementType(type), rows, columns, leading}};
    return SUCCESS;
}

EXPORTED Status cublasLtMatrixLayoutDestroy(Layout* layout) {
    delete layout;
    return SUCCESS;
}

// cublasLtMatrixLayoutAttribute_t
EXPORTED Status cublasLtMatrixLayoutSetAttribute(
    Layout* to, int attribute, const void* value, size_t num_bytes
) {
    switch (attribute) {
        case 0: return set(to->matrix.type, value, num_bytes);
        case 1: return set(to->order, value, num_bytes);
        case 2: return set(to->matrix.rows, value, num_bytes);
        case 3: return set(to->matrix.columns, value, num_bytes);
        case 4: return set(to->matrix.leading, value, num_bytes);
        case 5: return set(to->num_batches, value, num_bytes);
        // The distance between matrices of a batch, of which there is one.
        case 6: return SUCCESS;
        default: return NOT_SUPPORTED;
    }
}

EXPORTED Status cublasLtMatmulPreferenceCreate(Preference** preference) {
    *preference = new Preference;
    return SUCCESS;
}

EXPORTED Status cublasLtMatmulPreferenceDestroy(Preference* preference) {
    delete preference;
    return SUCCESS;
}

// cublasLtMatmulPreferenceAttributes_t. The one algorithm adds in one pass, so it suits all.
EXPORTED Status cublasLtMatmulPreferenceSetAttribute(
    Preference* to, int attribute, const void* value, size_t num_bytes
) {
    const int MAX_WORKSPACE_BYTES = 1, FIRST_ALIGNMENT = 5, LAST_ALIGNMENT = 8;
    if (attribute == MAX_WORKSPACE_BYTES) {
        return set(to->workspace_bytes_max, value, num_bytes);
    }
    if (attribute >= FIRST_ALIGNMENT && attribute <= LAST_ALIGNMENT) {
        return set(to->alignments.bytes[attribute - FIRST_ALIGNMENT], value, num_bytes);
    }
    return SUCCESS;
}

EXPORTED Status cublasLtMatmulAlgoGetHeuristic(
    void*, const Description* asked, const Layout* a, const Layout* b, const Layout* c, const Layout* d,
    const Preference* preference, int num_asked, Proposal* proposals, int* num_proposals
) {
    if (!preference || num_asked < 1 || !proposals || !num_proposals) {
        return INVALID_VALUE;
    }
    *num_proposals = 0;
    if (fake_gpu_fails()) {
        return INTERNAL_ERROR;
    }
    Product product;
    if (Status status = read(asked, {a, b, c, d}, product)) {
        return status;
    }
    // The library may propose nothing for an epilogue. When it does not is not documented; here it is so for
    // single columns, so that a program meets both.
    if (product.has_aux() && product.d.columns == 1) {
        return NOT_SUPPORTED;
    }
    // Wider loads than 16 bytes no algorithm has.
    Alignments alignments = preference->alignments;
    bool promises_too_much = alignments.bytes[0] < 16 && has_fault("alignment", product, 0);
    for (uint32_t& bytes : alignments.bytes) {
        bytes = promises_too_much ? 16 : std::clamp(bytes, 1u, 16u);
    }
    auto propose = [&](size_t workspace_bytes) {
        Algorithm algorithm = {mark_of(product), alignments, workspace_bytes, {}};
        proposals[(*num_proposals)++] = {algorithm, workspace_bytes, SUCCESS, 1.0f, {}};
    };
    bool takes_workspace =
        product.epilogue == Epilogue::TIMES_GELU_GRADIENT && preference->workspace_bytes_max >= OFFERED_BYTES;
    if (takes_workspace && num_asked > 1) {
        propose(preference->workspace_bytes_max);
    }
    propose(takes_workspace ? WORKSPACE_BYTES : 0);
    return SUCCESS;
}

EXPORTED Status cublasLtMatmul(
    void*, const Description* asked, const float* alpha, const void* a, const Layout* a_layout, const void* b,
    const Layout* b_layout, const float* beta_asked, const void* c, const Layout* c_layout, void* d,
    const Layout* d_layout, const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream
) {
    Product product;
    if (Status status = read(asked, {a_layout, b_layout, c_layout, d_layout}, product)) {
        return status;
    }
    // An algorithm is for the layouts and types that it was proposed for.
    if (!alpha || !beta_asked || (algorithm && algorithm->mark != mark_of(product))) {
        return INVALID_VALUE;
    }
    float beta = *beta_asked;
    const void* matrices[4] = {a, b, c, d};
    put_faults_in(product, beta, matrices);
    const void* addresses[4] = {matrices[0], matrices[1], matrices[beta != 0 ? 2 : 3], matrices[3]};
    const Alignments alignments = algorithm ? algorithm->alignments : Alignments();
    for (int index = 0; index < 4; index++) {
        if (!addresses[index] || (uintptr_t)addresses[index] % alignments.bytes[index] != 0) {
            return INVALID_VALUE;
        }
    }
    bool is_apart = matrices[2] != matrices[3] || product.c == product.d;
    bool is_bias_aligned = asked->bias && (uintptr_t)asked->bias % product.d.element_bytes() == 0;
    bool is_aux_aligned = asked->aux && (uintptr_t)asked->aux % 16 == 0;
    if (!is_apart || (product.has_bias() && !is_bias_aligned) || (product.has_aux() && !is_aux_aligned)) {
        return INVALID_VALUE;
    }
    // The library asks for a multiple of 16 (cublasLtMatmul(), `workspace`).
    size_t needed_bytes = algorithm ? algorithm->workspace_bytes : 0;
    bool has_workspace = workspace && (uintptr_t)workspace % 16 == 0 && workspace_bytes >= needed_bytes;
    if (needed_bytes > 0 && !has_workspace) {
        return INVALID_VALUE;
    }
    auto* out = (void*)matrices[3];
    Operands operands = {.a = matrices[0],
                         .b = matrices[1],
                         .c = matrices[2],
                         .d = out,
                         .bias = asked->bias,
                         .aux = asked->aux,
                         .aux_leading = asked->aux_leading,
                         .alpha = *alpha,
                         .beta = beta,
                         .workspace = needed_bytes > 0 ? workspace : nullptr,
                         .workspace_bytes = needed_bytes};
    auto* call = new Call{product, operands};
    auto run = [](void* argument) {
        auto* call = (Call*)argument;
        multiply(call->product, call->operands);
        delete call;
    };
    uint64_t size = product.d.rows * product.d.columns * product.inner();
    uint64_t lasts_ns = PRODUCT_NS * (1 + size / PRODUCT_SIZE);
    if (fake_gpu_push(stream, "cublasLtMatmul", run, call, lasts_ns) != 0) {
        delete call;
        return INTERNAL_ERROR;
    }
    return SUCCESS;
}
